// A page's own taps: which may be made, which wait, which are without an answer. Pure: no network, no page, no timer.
//
// A tap is (client, page, seq). A seq is used once, even after a refusal; taps without an answer are sent again in
// order, with their age; while offline the last three are kept without a seq and sent afterwards, one per cooldown.

import { age, now } from "./age.js";

/** What is kept while offline: enough for a moment's applause, not for a burst afterwards. */
const KEPT_MAX = 3;
/** Past this age the server refuses a tap as too old; and a reaction that late is about nothing any more. */
const GIVE_UP_MS = 80_000;
/** So many may be without an answer; the server allows 64. Beyond it the line is as good as none. */
const UNANSWERED_MAX = 32;

/**
 * @typedef {import("./types.js").Moment} Moment
 * @typedef {import("./types.js").Tap} Tap
 * @typedef {{ key: string, seq: number, since: Moment, again: boolean, kept: boolean }} Sent
 * @typedef {{ key: string, made: Moment }} Kept
 */

export class Taps {
  /** @param {() => Moment} clock */
  constructor(clock = now) {
    this.clock = clock;
    this.cooldownMs = 0;
    this.seq = 0;
    /** @type {Sent[]} */
    this.sent = [];
    /** @type {Kept[]} */
    this.kept = [];
    /** @type {Moment | null} */
    this.last = null;
    /** @type {{ since: Moment, ms: number } | null} */
    this.hold = null;
  }

  /** Milliseconds until a tap may be made. */
  left() {
    const at = this.clock();
    const cooldown = this.last ? this.cooldownMs - age(this.last, at) : 0;
    const hold = this.hold ? this.hold.ms - age(this.hold.since, at) : 0;
    return Math.max(0, cooldown, hold);
  }

  /** A person taps. Gives the tap to send, null where it is kept for later, undefined where it came too soon.
   * @param {string} key
   * @param {boolean} online
   * @returns {Tap | null | undefined}
   */
  tap(key, online) {
    if (this.left() > 0) return undefined;
    const at = this.clock();
    this.last = at;
    if (online && this.kept.length === 0 && this.sent.length < UNANSWERED_MAX) return this.#send(key, at, false);
    this.kept.push({ key, made: at });
    if (this.kept.length > KEPT_MAX) this.kept.shift();
    return null;
  }

  /** The next kept tap, if its time has come. Call it when joined and when `left` has passed.
   * @returns {Tap | null}
   */
  due() {
    const at = this.clock();
    this.kept = this.kept.filter((kept) => age(kept.made, at) < GIVE_UP_MS);
    if (this.kept.length === 0 || this.sent.length >= UNANSWERED_MAX || this.left() > 0) return null;
    const next = /** @type {Kept} */ (this.kept.shift());
    this.last = at;
    return this.#send(next.key, at, true);
  }

  /** After a join: the taps without an answer, in order, before any new one.
   * @returns {Tap[]}
   */
  unanswered() {
    const at = this.clock();
    this.sent = this.sent.filter((sent) => age(sent.since, at) <= GIVE_UP_MS);
    return this.sent.map((sent) => {
      sent.again = true;
      return { key: sent.key, seq: sent.seq, age_ms: age(sent.since, at) };
    });
  }

  /** @param {number} seq */
  acknowledged(seq) {
    return this.#answered(seq);
  }

  /** An attempt did not count. Only one that was never sent again is known not to have counted at all: such a tap may
   * be made again, as a new one, where the server is busy or a kept tap was a little early.
   * @param {import("./types.js").Refused} refused
   */
  refused({ seq, why, retry_ms }) {
    const sent = this.#answered(seq);
    if (why === "seq") this.restart();
    if (!sent) return null;
    const busy = why === "busy";
    if (busy || why === "cooldown") {
      this.hold = { since: this.clock(), ms: retry_ms ?? (busy ? 1000 : 0) };
      const room = this.kept.length < KEPT_MAX;
      if (!sent.again && room && (busy || sent.kept)) {
        this.kept.unshift({ key: sent.key, made: sent.since });
      }
    }
    return sent;
  }

  /** A new page id begins: nothing that was sent can be sent again under it. */
  restart() {
    this.seq = 0;
    this.sent = [];
  }

  /** Own taps of a reaction that the totals may not hold yet.
   * @param {string} key
   */
  open(key) {
    const ours = (/** @type {{ key: string }} */ tap) => tap.key === key;
    return this.sent.filter(ours).length + this.kept.filter(ours).length;
  }

  /** @param {string} key @param {Moment} since @param {boolean} kept @returns {Tap} */
  #send(key, since, kept) {
    this.seq += 1;
    this.sent.push({ key, seq: this.seq, since, again: false, kept });
    return { key, seq: this.seq };
  }

  /** @param {number} seq */
  #answered(seq) {
    const index = this.sent.findIndex((sent) => sent.seq === seq);
    return index < 0 ? null : this.sent.splice(index, 1)[0];
  }
}

/** Merges totals by maximum: a frame that comes late or twice does no harm.
 * @param {import("./types.js").Totals} totals changed in place
 * @param {import("./types.js").Totals} fresh
 * @returns {import("./types.js").Totals} what grew, and by how much
 */
export function merge(totals, fresh) {
  /** @type {import("./types.js").Totals} */
  const grown = Object.create(null);
  for (const [key, total] of Object.entries(fresh)) {
    const before = totals[key] ?? 0;
    if (total > before) {
      grown[key] = total - before;
      totals[key] = total;
    }
  }
  return grown;
}
