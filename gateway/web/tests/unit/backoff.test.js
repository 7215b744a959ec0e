import assert from "node:assert/strict";
import { test } from "node:test";
import { afterClose, backoff } from "../../js/backoff.js";

test("full jitter: from nothing up to a span that doubles, and no longer than 30 s", () => {
  assert.deepEqual([0, 1, 2, 3].map((n) => backoff(n, () => 1)), [500, 1000, 2000, 4000]);
  assert.equal(backoff(50, () => 1), 30_000);
  assert.equal(backoff(7, () => 0), 0);
});

test("a hall that reconnects is spread evenly over the span", () => {
  const waits = Array.from({ length: 4000 }, () => backoff(4));
  const perSecond = Array.from({ length: 8 }, (_, second) => waits.filter((ms) => Math.floor(ms / 1000) === second).length);
  for (const count of perSecond) assert.ok(count > 350 && count < 650, String(perSecond));
});

test("each close code leads to what the protocol page says", () => {
  const half = () => 0.5;
  for (const [code, never] of /** @type {const} */ ([
    [4404, "missing"], [1008, "refused"], [1002, "broken"], [1003, "broken"], [1007, "broken"], [1009, "broken"],
  ])) {
    assert.deepEqual(afterClose(code, null, 0, half), { never });
  }
  for (const code of [1000, 1001, 1006, 1011, 1012]) {
    assert.deepEqual(afterClose(code, null, 2, half), { waitMs: 1000, told: false }, String(code));
  }
  assert.deepEqual(afterClose(1012, { why: "drain", retry_ms: 3417 }, 0, half), { waitMs: 3417, told: true });
  assert.deepEqual(afterClose(1013, { why: "overload", retry_ms: 9000 }, 0, half), { waitMs: 9000, told: true });
  assert.deepEqual(afterClose(1013, null, 0, half), { waitMs: 5250, told: true });
  assert.deepEqual(afterClose(1012, { why: "closed" }, 0, half), { never: "refused" });
});
