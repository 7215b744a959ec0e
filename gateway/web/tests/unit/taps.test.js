import assert from "node:assert/strict";
import { test } from "node:test";
import { merge, Taps } from "../../js/taps.js";

/** A clock whose two faces a test moves apart. */
function clock() {
  const at = { wall: 1_700_000_000_000, steady: 500 };
  return {
    now: () => ({ ...at }),
    pass(/** @type {number} */ ms) {
      at.wall += ms;
      at.steady += ms;
    },
    /** A phone sleeps: only the wall clock goes on. */
    sleep(/** @type {number} */ ms) {
      at.wall += ms;
    },
    /** A person sets the wall clock. */
    set(/** @type {number} */ ms) {
      at.wall += ms;
    },
  };
}

function queue(cooldownMs = 3000) {
  const time = clock();
  const taps = new Taps(time.now);
  taps.cooldownMs = cooldownMs;
  return { taps, time };
}

test("seq grows by one from 1 and is never used twice, not even after a refusal", () => {
  const { taps, time } = queue(0);
  assert.deepEqual(taps.tap("clap", true), { key: "clap", seq: 1 });
  taps.refused({ seq: 1, why: "paused" });
  time.pass(1);
  assert.deepEqual(taps.tap("clap", true), { key: "clap", seq: 2 });
  taps.acknowledged(2);
  time.pass(1);
  assert.deepEqual(taps.tap("love", true), { key: "love", seq: 3 });
});

test("within the cooldown a tap comes too soon, at its end it is let through", () => {
  const { taps, time } = queue(3000);
  taps.tap("clap", true);
  time.pass(2999);
  assert.equal(taps.left(), 1);
  assert.equal(taps.tap("love", true), undefined);
  time.pass(1);
  assert.equal(taps.left(), 0);
  assert.deepEqual(taps.tap("love", true), { key: "love", seq: 2 });
});

test("every allowed tap counts, however fast the others are", () => {
  const { taps, time } = queue(250);
  let counted = 0;
  for (let ms = 0; ms < 10_000; ms += 25) {
    const tap = taps.tap("clap", true);
    if (tap && taps.acknowledged(tap.seq)) counted += 1;
    time.pass(25);
  }
  assert.equal(counted, 40);
});

test("taps without an answer are sent again in order, with their age", () => {
  const { taps, time } = queue(1000);
  taps.tap("clap", true);
  time.pass(1000);
  taps.tap("love", true);
  time.pass(1000);
  taps.tap("fire", true);
  time.pass(500);
  taps.acknowledged(2);
  assert.deepEqual(taps.unanswered(), [
    { key: "clap", seq: 1, age_ms: 2500 },
    { key: "fire", seq: 3, age_ms: 500 },
  ]);
});

test("the age is the larger of the two clocks' answers", () => {
  const { taps, time } = queue(1000);
  taps.tap("clap", true);
  time.pass(100);
  time.sleep(20_000);
  assert.equal(taps.unanswered()[0].age_ms, 20_100);
  time.set(-60_000);
  assert.equal(taps.unanswered()[0].age_ms, 100);
});

test("a wall clock that is set back never makes a cooldown longer", () => {
  const { taps, time } = queue(3000);
  taps.tap("clap", true);
  time.set(-3_600_000);
  time.pass(3000);
  assert.equal(taps.left(), 0);
});

test("past 80 seconds a tap is given up", () => {
  const { taps, time } = queue(1000);
  taps.tap("clap", true);
  time.pass(80_000);
  assert.equal(taps.unanswered().length, 1);
  time.pass(1);
  assert.equal(taps.unanswered().length, 0);
  assert.equal(taps.open("clap"), 0);
});

test("offline the last three are kept, and sent afterwards, one per cooldown", () => {
  const { taps, time } = queue(1000);
  for (const key of ["one", "two", "three", "four", "five"]) {
    assert.equal(taps.tap(key, false), null);
    time.pass(1000);
  }
  assert.deepEqual(taps.kept.map(({ key }) => key), ["three", "four", "five"]);
  assert.deepEqual(taps.due(), { key: "three", seq: 1 });
  assert.equal(taps.due(), null);
  time.pass(999);
  assert.equal(taps.due(), null);
  time.pass(1);
  assert.deepEqual(taps.due(), { key: "four", seq: 2 });
  time.pass(1000);
  assert.deepEqual(taps.due(), { key: "five", seq: 3 });
  time.pass(1000);
  assert.equal(taps.due(), null);
});

test("a tap made while kept ones wait comes after them", () => {
  const { taps, time } = queue(1000);
  taps.tap("old", false);
  time.pass(1000);
  assert.equal(taps.tap("new", true), null);
  time.pass(1000);
  assert.equal(taps.due()?.key, "old");
  time.pass(1000);
  assert.equal(taps.due()?.key, "new");
});

test("kept taps are given up when they are about nothing any more", () => {
  const { taps, time } = queue(1000);
  taps.tap("clap", false);
  time.sleep(80_000);
  assert.equal(taps.due(), null);
  assert.equal(taps.kept.length, 0);
});

test("busy: made again as a new tap, after the wait; but not if it had been sent twice", () => {
  const { taps, time } = queue(1000);
  taps.tap("clap", true);
  taps.refused({ seq: 1, why: "busy", retry_ms: 4000 });
  assert.equal(taps.left(), 4000);
  assert.equal(taps.due(), null);
  time.pass(4000);
  assert.deepEqual(taps.due(), { key: "clap", seq: 2 });
  taps.unanswered();
  taps.refused({ seq: 2, why: "busy", retry_ms: 10 });
  assert.equal(taps.kept.length, 0, "its first attempt may have counted");
});

test("cooldown: a kept tap that was a little early is made again, a fresh one is not", () => {
  const { taps, time } = queue(1000);
  taps.tap("clap", false);
  time.pass(1000);
  assert.equal(taps.due()?.seq, 1);
  taps.refused({ seq: 1, why: "cooldown", retry_ms: 300 });
  assert.equal(taps.kept.length, 1);
  time.pass(1000);
  assert.equal(taps.due()?.seq, 2);
  taps.acknowledged(2);
  time.pass(1000);
  taps.tap("love", true);
  taps.refused({ seq: 3, why: "cooldown", retry_ms: 2300 });
  assert.equal(taps.kept.length, 0);
  assert.equal(taps.left(), 2300, "the server's word counts");
});

test("after a seq refusal a new page begins at 1 and nothing is sent again", () => {
  const { taps, time } = queue(0);
  taps.tap("clap", true);
  time.pass(1);
  taps.tap("love", true);
  taps.refused({ seq: 2, why: "seq" });
  assert.deepEqual(taps.unanswered(), []);
  assert.equal(taps.tap("clap", true)?.seq, 1);
});

test("with too many taps without an answer the line is as good as none", () => {
  const { taps, time } = queue(250);
  for (let n = 0; n < 40; n += 1) {
    taps.tap("clap", true);
    time.pass(250);
  }
  assert.equal(taps.sent.length, 32);
  assert.equal(taps.kept.length, 3);
  assert.equal(taps.due(), null);
  taps.acknowledged(1);
  assert.equal(taps.due()?.seq, 33);
});

test("open taps are those that the totals may not hold yet", () => {
  const { taps, time } = queue(1000);
  taps.tap("clap", true);
  time.pass(1000);
  taps.tap("clap", false);
  assert.equal(taps.open("clap"), 2);
  taps.acknowledged(1);
  assert.equal(taps.open("clap"), 1);
  assert.equal(taps.open("love"), 0);
});

test("totals merge by maximum: late and doubled frames do no harm", () => {
  const totals = {};
  assert.deepEqual({ ...merge(totals, { clap: 5, love: 2 }) }, { clap: 5, love: 2 });
  assert.deepEqual({ ...merge(totals, { clap: 4 }) }, {});
  assert.deepEqual({ ...merge(totals, { clap: 9, love: 2 }) }, { clap: 4 });
  assert.deepEqual(totals, { clap: 9, love: 2 });
});

test("a reaction may be called constructor", () => {
  const totals = Object.create(null);
  assert.deepEqual({ ...merge(totals, { constructor: 5 }) }, { constructor: 5 });
  assert.equal(totals.constructor, 5);
});
