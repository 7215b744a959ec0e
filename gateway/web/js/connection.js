// Keeps a page joined to its room: opens, joins, notices a dead line, comes back at the right moment, and falls back
// to plain HTTP where WebSockets are blocked. What the frames mean is the page's business.

import { age, now } from "./age.js";
import { afterClose, backoff } from "./backoff.js";
import { hex } from "./ids.js";
import { openSocket, openStream, probe } from "./transports.js";

/** A WebSocket that closes before it was open so often in a row is blocked, not unlucky. */
const BLOCKED_AFTER = 2;
/** An awake line answers a ping within this (the protocol's number). */
const PONG_MS = 2_000;
/** A join that takes longer than the server waits for one has failed. */
const JOIN_MS = 10_000;
/** A line that was silent so long is asked whether it lives. */
const SILENCE_MS = 30_000;
/** After so long a join counts as steady, and the next wait begins small again. */
const STEADY_MS = 10_000;

/**
 * @typedef {import("./types.js").ServerFrame} ServerFrame
 * @typedef {import("./types.js").Status} Status
 * @typedef {{ openSocket: typeof openSocket, openStream: typeof openStream, probe: typeof probe, random: () => number }} Outside
 */

export class Connection {
  /**
   * @param {{ code: string, role: string, client: string, token?: string | null }} who
   * @param {{ frame(frame: ServerFrame): void, status(status: Status): void }} on
   * @param {Partial<Outside>} [outside] what a test replaces
   */
  constructor(who, on, outside) {
    this.who = who;
    this.on = on;
    /** @type {Outside} */
    this.outside = { openSocket, openStream, probe, random: Math.random, ...outside };
    this.page = hex(4);
    /** @type {Status} */
    this.status = { name: "connecting" };
    /** @type {"socket" | "stream"} */
    this.way = "socket";
    this.hop = "";
    this.attempt = 0;
    this.blocked = 0;
    this.told = false;
    /** @type {import("./types.js").Transport | null} */
    this.transport = null;
    /** @type {import("./types.js").Bye | null} */
    this.bye = null;
    this.heard = now();
    /** @type {Record<string, ReturnType<typeof setTimeout> | undefined>} */
    this.timers = {};
  }

  get joined() {
    return this.status.name === "joined";
  }

  open() {
    this.#drop();
    this.#say({ name: "connecting" });
    const { client, role, token = null } = this.who;
    const join = { client, page: this.page, role, token };
    this.bye = null;
    this.told = false;
    const open = this.way === "socket" ? this.outside.openSocket : this.outside.openStream;
    /** @type {import("./types.js").Transport | null} */
    let transport = null;
    // An answer of a line that was given up is nobody's.
    const current = () => transport === null || transport === this.transport;
    transport = open(this.who.code, join, {
      frame: (frame) => current() && this.#frame(frame),
      closed: ({ code, opened }) => current() && this.#closed(code, opened),
    });
    this.transport = transport;
    this.#timer("join", JOIN_MS, () => this.#closed(1006, true));
  }

  /** Sends, if joined. What is lost with the line is the caller's to send again after the next join.
   * @param {import("./types.js").ClientFrame} frame
   */
  send(frame) {
    if (this.joined) this.transport?.send(frame);
    return this.joined;
  }

  /** Someone looks at the page again: a line that died while the phone slept is found within two seconds. */
  wake() {
    if (this.status.name === "joined") {
      this.check();
    } else if (this.status.name === "waiting" && !this.told) {
      this.open();
    }
  }

  /** The network is back, for everyone in the hall at once: so not quite at once. */
  online() {
    this.blocked = 0;
    this.way = "socket";
    if (this.status.name === "joined") this.check();
    else if (this.status.name === "waiting" && !this.told) this.#later(backoff(1, this.outside.random));
  }

  /** Asks the line whether it lives. The fallback has no ping: it is opened anew if it was silent for long. */
  check() {
    if (this.way === "stream") {
      if (age(this.heard) > SILENCE_MS) this.open();
      return;
    }
    this.send({ ping: 1 });
    this.timers.pong ??= setTimeout(() => this.#closed(1006, true), PONG_MS);
  }

  /** The page is put away (back-forward cache): an open line would keep it from being kept. */
  sleep() {
    this.told = false;
    this.#drop();
    this.#say({ name: "waiting" });
  }

  /** The server no longer follows our numbers: begin as a new page. */
  renew() {
    this.page = hex(4);
    this.open();
  }

  /** @param {ServerFrame} frame */
  #frame(frame) {
    this.heard = now();
    this.#stop("pong");
    this.#timer("silence", SILENCE_MS, () => this.#silent());
    if (frame.bye) this.bye = frame.bye;
    const joins = frame.room && !this.joined;
    if (joins) {
      this.#stop("join");
      this.#timer("steady", STEADY_MS, () => (this.attempt = 0));
      this.blocked = 0;
    }
    this.on.frame(frame);
    if (joins) this.#say({ name: "joined", way: this.way, hop: this.hop });
  }

  #silent() {
    if (typeof document === "undefined" || !document.hidden) this.check();
    this.#timer("silence", SILENCE_MS, () => this.#silent());
  }

  /** @param {number} code @param {boolean} opened */
  async #closed(code, opened) {
    const { bye } = this;
    this.#drop();
    if (!opened && code === 1006 && this.way === "socket" && ++this.blocked >= BLOCKED_AFTER) {
      this.#say({ name: "waiting" });
      const { reached, missing, hop } = await this.outside.probe(this.who.code);
      if (this.status.name !== "waiting" || this.transport) return;
      if (missing) return this.#say({ name: "ended", why: "missing" });
      if (reached) {
        this.way = "stream";
        this.hop = hop;
        return this.open();
      }
    }
    const next = afterClose(code, bye, this.attempt, this.outside.random);
    if ("never" in next) return this.#say({ name: "ended", why: next.never });
    this.attempt += 1;
    this.told = next.told;
    this.#later(next.waitMs);
  }

  /** @param {number} ms */
  #later(ms) {
    this.#say({ name: "waiting" });
    this.#timer("open", ms, () => this.open());
  }

  #drop() {
    for (const name of Object.keys(this.timers)) this.#stop(name);
    const { transport } = this;
    this.transport = null;
    transport?.close();
  }

  /** @param {Status} status */
  #say(status) {
    this.status = status;
    this.on.status(status);
  }

  /** @param {string} name @param {number} ms @param {() => void} then */
  #timer(name, ms, then) {
    this.#stop(name);
    this.timers[name] = setTimeout(() => {
      this.timers[name] = undefined;
      then();
    }, ms);
  }

  /** @param {string} name */
  #stop(name) {
    clearTimeout(this.timers[name]);
    this.timers[name] = undefined;
  }
}

/** Ties a connection to the life of its page.
 * @param {Connection} connection
 */
export function follow(connection) {
  addEventListener("pagehide", () => connection.sleep());
  addEventListener("pageshow", (event) => event.persisted && connection.wake());
  addEventListener("online", () => connection.online());
  document.addEventListener("visibilitychange", () => document.hidden || connection.wake());
  connection.open();
}
