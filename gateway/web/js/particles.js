// The stage's emoji, without a canvas: how many a tick gives birth to, how large, and where each is at a moment.

/** Alive at a time: more would hide the slides, and cost a projector's old laptop its frames. */
export const ALIVE_MAX = 60;
/** Where motion is reduced: they only fade, and fewer are easier on the eye. */
export const CALM_MAX = 12;
/** A tick's births are spread over this: the time until the next one. */
export const TICK_MS = 250;
/** How long one lives: with 60 alive that allows some four births a tick for as long as a storm lasts. */
const LIFE_MS = 3600;

/**
 * @typedef {{ key: string, weight: number }} Birth `weight`: how many taps it stands for
 * @typedef {{ key: string, at: number, life: number, x: number, rise: number, sway: number, phase: number, spin: number, size: number }} Particle
 */

/** Shares out births among the reactions that grew: each gets at least a chance, and none is lost, since what is not
 * born is carried as the weight of those that are.
 * @param {import("./types.js").Totals} grown
 * @param {number} free how many more may be alive
 * @param {() => number} random
 * @param {number} [max] alive at a time
 * @returns {Birth[]}
 */
export function births(grown, free, random, max = ALIVE_MAX) {
  const entries = Object.entries(grown).filter(([, by]) => by > 0);
  const taps = entries.reduce((sum, [, by]) => sum + by, 0);
  // A burst may take a third of what is free, so that the next tick has room too.
  const budget = Math.min(taps, free, Math.max(Math.ceil(free / 3), Math.ceil(max / 15)));
  if (budget <= 0) return [];
  /** @type {Birth[]} */
  const born = [];
  for (const [key, by] of entries) {
    const share = (by / taps) * budget;
    const count = Math.floor(share) + (random() < share % 1 ? 1 : 0);
    for (let n = 0; n < count && born.length < free; n += 1) born.push({ key, weight: by / count });
  }
  // Rounding down everywhere must not make a tick invisible.
  if (born.length === 0) born.push({ key: entries[Math.floor(random() * entries.length)][0], weight: taps });
  return born;
}

/** How much larger a particle is drawn that stands for several taps: twice for some thirty, never more than 2.4 times.
 * @param {number} weight
 */
export const sizeOf = (weight) => Math.min(2.4, 1 + 0.2 * Math.log2(Math.max(1, weight)));

/** A fixed number of particles, used again and again: nothing is thrown away while a storm lasts. */
export class Pool {
  constructor(max = ALIVE_MAX) {
    this.max = max;
    this.alive = 0;
    /** @type {Particle[]} */
    this.all = Array.from({ length: max }, () => ({ key: "", at: 0, life: 0, x: 0, rise: 0, sway: 0, phase: 0, spin: 0, size: 0 }));
  }

  get free() {
    return this.max - this.alive;
  }

  /** @param {Birth} birth @param {number} at when, on the steady clock @param {() => number} random */
  add({ key, weight }, at, random) {
    if (this.alive >= this.max) return;
    const one = this.all[this.alive];
    this.alive += 1;
    one.key = key;
    one.at = at;
    one.life = LIFE_MS * (0.85 + random() * 0.35);
    one.x = random();
    one.rise = 0.55 + random() * 0.4;
    one.sway = 0.012 + random() * 0.022;
    one.phase = random() * 7;
    one.spin = (random() - 0.5) * 0.5;
    one.size = sizeOf(weight) * (0.85 + random() * 0.3);
  }

  /** Takes out those whose life is over. @param {number} now */
  sweep(now) {
    for (let i = this.alive - 1; i >= 0; i -= 1) {
      const one = this.all[i];
      if (now < one.at + one.life) continue;
      this.alive -= 1;
      this.all[i] = this.all[this.alive];
      this.all[this.alive] = one;
    }
  }

  clear() {
    this.alive = 0;
  }
}

/** Where a particle is, in parts of the stage's width and height (0 is left and bottom), and how visible.
 * @param {Particle} one
 * @param {number} now
 * @param {boolean} still
 * @returns {{ x: number, y: number, alpha: number, turn: number, scale: number } | null} null before its birth
 */
export function place(one, now, still) {
  const part = (now - one.at) / one.life;
  if (part < 0 || part >= 1) return null;
  const alpha = Math.min(1, part / 0.1, (1 - part) / 0.35);
  if (still) return { x: one.x, y: 0.1 + one.rise * 0.25, alpha, turn: 0, scale: 1 };
  const eased = 1 - (1 - part) ** 1.7;
  return {
    x: one.x + one.sway * Math.sin(one.phase + part * 6),
    y: eased * one.rise,
    alpha,
    turn: one.spin * Math.sin(one.phase + part * 5),
    scale: Math.min(1, 0.4 + part * 6),
  };
}
