import assert from "node:assert/strict";
import { test } from "node:test";
import { ALIVE_MAX, births, place, Pool, sizeOf, TICK_MS } from "../../js/particles.js";

/** The same numbers each time. */
function dice(seed = 1) {
  return () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
}

test("few taps: one emoji each", () => {
  const born = births({ clap: 2, love: 1 }, ALIVE_MAX, dice());
  assert.ok(born.length >= 2 && born.length <= 4);
  assert.deepEqual(births({ clap: 1 }, ALIVE_MAX, dice()), [{ key: "clap", weight: 1 }]);
  assert.deepEqual(births({}, ALIVE_MAX, dice()), []);
});

test("a storm never exceeds what is free, and the surplus becomes size", () => {
  const born = births({ clap: 50_000, love: 500 }, ALIVE_MAX, dice());
  assert.ok(born.length <= ALIVE_MAX / 3 + 1);
  assert.ok(born.every(({ weight }) => sizeOf(weight) > 1.8 && sizeOf(weight) <= 2.4));
  assert.deepEqual(births({ clap: 9 }, 0, dice()), []);
});

test("a rare reaction among many is seen now and then", () => {
  const random = dice(7);
  let seen = 0;
  for (let n = 0; n < 400; n += 1) seen += births({ clap: 980, love: 20 }, ALIVE_MAX, random).filter(({ key }) => key === "love").length;
  assert.ok(seen > 80 && seen < 260, String(seen));
});

test("a storm of a minute keeps between a third and all of the sixty alive", () => {
  const pool = new Pool();
  const random = dice(3);
  for (let now = 0; now < 60_000; now += TICK_MS) {
    pool.sweep(now);
    for (const birth of births({ clap: 300, love: 90, fire: 40 }, pool.free, random)) pool.add(birth, now + random() * TICK_MS, random);
    assert.ok(pool.alive <= ALIVE_MAX);
    if (now > 5000) assert.ok(pool.alive > ALIVE_MAX / 3, String(pool.alive));
  }
});

test("the pool makes no new particles", () => {
  const pool = new Pool(4);
  const objects = new Set(pool.all);
  for (let now = 0; now < 100_000; now += 700) {
    pool.sweep(now);
    pool.add({ key: "clap", weight: 1 }, now, dice(now + 1));
  }
  assert.deepEqual(new Set(pool.all), objects);
});

test("born and gone unseen, in between inside the picture; still ones do not move", () => {
  const pool = new Pool(1);
  pool.add({ key: "clap", weight: 1 }, 100, dice());
  const [one] = pool.all;
  assert.equal(place(one, 99, false), null);
  assert.equal(place(one, 100 + one.life, false), null);
  assert.equal(place(one, 100, false)?.alpha, 0);
  const early = place(one, 100 + one.life * 0.2, false);
  const late = place(one, 100 + one.life * 0.8, false);
  assert.ok(early && late && early.y < late.y && late.y <= 1);
  const still = [0.2, 0.8].map((part) => place(one, 100 + one.life * part, true));
  assert.deepEqual([still[0]?.x, still[0]?.y], [still[1]?.x, still[1]?.y]);
});
