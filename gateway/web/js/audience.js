// The audience's page: the buttons, the own taps, the totals, and how the line is.

import { follow, Connection } from "./connection.js";
import { floats } from "./floats.js";
import { clientId } from "./ids.js";
import { amount, calm, data, get, make, text } from "./page.js";
import { listenForPresses } from "./presses.js";
import { merge, Taps } from "./taps.js";

/** A screen reader is told the totals at most this often: each tick would never let it finish. */
const TOLD_EVERY_MS = 10_000;
/** A tap without an answer for so long makes the page ask whether the line lives. */
const ANSWER_MS = 3_000;

/**
 * @typedef {import("./types.js").RoomFrame} RoomFrame
 * @typedef {import("./types.js").Tap} Tap
 * @typedef {{ button: HTMLElement, face: HTMLElement, ring: SVGElement, total: HTMLElement, emoji: string, label: string, shown: number }} Pad
 */

const palette = get("palette");
const status = get("status");
const live = get("live");
const taps = new Taps();
const rising = floats(get("floats"));
/** @type {import("./types.js").Totals} */
const totals = Object.create(null);
/** @type {Map<string, Pad>} */
const pads = new Map();
let room = data.room;
/** Until the first join no total is known, and none is shown. */
let known = false;
/** Own taps that were counted and whose emoji has risen already. @type {import("./types.js").Totals} */
const own = Object.create(null);

// ---- the buttons

/** @param {HTMLElement} button */
function adopt(button) {
  const find = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (button.querySelector(selector));
  pads.set(button.dataset.key ?? "", {
    button,
    face: find(".face"),
    ring: /** @type {SVGElement} */ (button.querySelector("circle")),
    total: find(".total"),
    emoji: find(".emoji").textContent ?? "",
    label: find(".label").textContent ?? "",
    shown: -1,
  });
}

/** @param {import("./types.js").Reaction} reaction */
function makePad({ key, emoji, label }) {
  const ring = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  ring.setAttribute("class", "ring");
  ring.setAttribute("viewBox", "0 0 40 40");
  ring.innerHTML = '<circle cx="20" cy="20" r="18.5" pathLength="100"/>';
  const face = make("span", { class: "face", "aria-hidden": "true" }, ring, make("span", { class: "emoji" }, emoji));
  const name = make("span", { class: "label", dir: "auto" }, label);
  const total = make("span", { class: "total", "aria-hidden": "true" }, "\u00a0");
  return make("button", { type: "button", class: "pad", "data-key": key }, face, name, total);
}

/** Keeps the buttons that stay, so that neither focus nor a ring is lost when a host changes the others.
 * @param {import("./types.js").Reaction[]} entries
 */
function showPalette(entries) {
  const wanted = entries.map((entry) => {
    const pad = pads.get(entry.key);
    return pad && pad.emoji === entry.emoji && pad.label === entry.label ? pad.button : makePad(entry);
  });
  const same = wanted.length === palette.children.length && wanted.every((button, i) => button === palette.children[i]);
  if (same) return;
  palette.replaceChildren(...wanted);
  palette.dataset.count = String(wanted.length);
  pads.clear();
  for (const button of wanted) adopt(button);
  showCooldown(null);
}

// ---- totals

/** @param {string} key */
function showTotal(key, lower = false) {
  const pad = pads.get(key);
  if (!pad || !known) return;
  // The own tap is shown at once; once it is counted, the number waits for the totals to hold it.
  const number = (totals[key] ?? 0) + taps.open(key);
  if (number === pad.shown || (number < pad.shown && !lower)) return;
  const grew = pad.shown >= 0 && number > pad.shown;
  pad.shown = number;
  pad.total.textContent = amount(number);
  // The text is short for large numbers: this one is exact.
  pad.total.dataset.total = String(number);
  if (grew && !calm()) pad.total.animate([{ transform: "translateY(-3px)" }, {}], { duration: 240, easing: "ease-out" });
}

/** @param {import("./types.js").Totals} fresh @param {boolean} floating */
function takeTotals(fresh, floating) {
  const grown = merge(totals, fresh);
  const others = [];
  for (const [key, by] of Object.entries(grown)) {
    showTotal(key);
    const mine = Math.min(own[key] ?? 0, by);
    own[key] = (own[key] ?? 0) - mine;
    const pad = pads.get(key);
    if (pad && by > mine) others.push({ key, from: pad.face, emoji: pad.emoji });
  }
  if (floating) rising.sample(others);
  if (Object.keys(grown).length) tellLater();
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let telling;
let toldAt = -Infinity;
function tellLater() {
  telling ??= setTimeout(() => {
    telling = undefined;
    toldAt = performance.now();
    live.textContent = [...pads].map(([key, pad]) => `${pad.label} ${amount(totals[key] ?? 0)}`).join(", ");
  }, Math.max(1000, toldAt + TOLD_EVERY_MS - performance.now()));
}

// ---- tapping

/** @param {HTMLElement} button */
function pressed(button) {
  const key = button.dataset.key ?? "";
  const pad = pads.get(key);
  if (!pad) return;
  if (room.state !== "open") return refuse(pad);
  const tap = taps.tap(key, connection.joined);
  if (tap === undefined) return refuse(pad);
  if (tap) send(tap);
  showTotal(key);
  rising.rise(pad.face, pad.emoji, true);
  if (!calm()) {
    pad.face.animate([{ transform: "scale(.86)" }, { transform: "scale(1.08)" }, {}], { duration: 280, easing: "ease-out" });
  }
  showCooldown(pad);
  showStatus();
  try {
    navigator.vibrate?.(8);
  } catch {
    // Some browsers refuse without a reason.
  }
}

/** @param {Pad} pad */
function refuse(pad) {
  if (calm()) return;
  const to = (/** @type {number} */ x) => ({ transform: `translateX(${x}px)` });
  pad.face.animate([to(0), to(-4), to(4), to(-2), to(0)], { duration: 220 });
}

/** @param {Tap} tap */
function send(tap) {
  connection.send({ tap });
  setTimeout(() => taps.sent.some((sent) => sent.seq === tap.seq) && connection.check(), ANSWER_MS);
}

/** @type {Animation | undefined} */
let ring;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let cooling;
/** Draws the ring on the button that was pressed; the others wait more quietly.
 * @param {Pad | null} pad
 */
function showCooldown(pad) {
  const left = taps.left();
  ring?.cancel();
  clearTimeout(cooling);
  document.body.classList.toggle("cooling", left > 0);
  for (const { button } of pads.values()) button.classList.toggle("pressed", left > 0 && button === pad?.button);
  if (left <= 0) return drain();
  ring = pad?.ring.animate([{ strokeDashoffset: 0 }, { strokeDashoffset: 100 }], { duration: left, fill: "forwards" });
  // A little late rather than early: the server judges by its own clock.
  cooling = setTimeout(() => showCooldown(null), left + 5);
}

/** Sends a kept tap when its turn has come. */
function drain() {
  if (!connection.joined || room.state !== "open") return;
  const tap = taps.due();
  if (!tap) return;
  send(tap);
  showCooldown(pads.get(tap.key) ?? null);
  showStatus();
}

// ---- frames

/** @param {RoomFrame} frame */
function takeRoom(frame) {
  const before = room;
  known = true;
  room = frame;
  taps.cooldownMs = frame.cooldown_ms;
  get("title").textContent = frame.title;
  document.title = `${frame.title} · Uproar`;
  showPalette(frame.palette);
  document.body.dataset.state = frame.state;
  if (before.cooldown_ms !== frame.cooldown_ms) showCooldown(null);
  if (before.state !== frame.state) drain();
  takeTotals(frame.totals, false);
  for (const key of pads.keys()) showTotal(key);
}

/** @param {import("./types.js").Refused} refused */
function takeRefusal(refused) {
  const sent = taps.refused(refused);
  if (refused.why === "seq") connection.renew();
  if (!sent) return;
  showTotal(sent.key, !sent.again);
  const pad = pads.get(sent.key) ?? null;
  if (taps.left() > 0) showCooldown(pad);
  const known = text(`why_${refused.why}`);
  if (!sent.again && !known.startsWith("why_")) say(known);
}

/** @param {import("./types.js").ServerFrame} frame */
function take(frame) {
  if (frame.room) takeRoom(frame.room);
  if (frame.tick) takeTotals(frame.tick.totals, !document.hidden);
  if (frame.refused) takeRefusal(frame.refused);
  if (frame.ack !== undefined) {
    const sent = taps.acknowledged(frame.ack);
    if (sent) own[sent.key] = (own[sent.key] ?? 0) + 1;
    drain();
    showStatus();
  }
}

// ---- the line

/** @type {ReturnType<typeof setTimeout> | undefined} */
let saying;
/** A passing word in the place of the line's state. @param {string} words */
function say(words) {
  status.textContent = words;
  clearTimeout(saying);
  saying = setTimeout(() => {
    saying = undefined;
    showStatus();
  }, 2500);
}

function showStatus() {
  const now = connection.status;
  document.body.dataset.line = now.name === "ended" ? now.why : now.name;
  const retry = get("retry");
  retry.hidden = now.name !== "ended" || now.why === "missing";
  const slow = now.name === "joined" && now.way === "stream";
  const note = get("note");
  note.hidden = !slow;
  if (slow) note.textContent = text(now.hop ? "blocked_by" : "blocked", { hop: now.hop });
  if (saying && now.name === "joined") return;
  const kept = taps.kept.length;
  if (now.name === "joined") status.textContent = kept ? text("sending", { n: kept }) : text(slow ? "slow" : "joined");
  else if (now.name === "ended") status.textContent = text(`ended_${now.why}`);
  else status.textContent = kept ? text("kept", { n: kept }) : text(now.name);
}

const connection = new Connection(
  { code: data.code, role: "phone", client: clientId() },
  {
    frame: take,
    status(now) {
      showStatus();
      if (now.name !== "joined") return;
      for (const tap of taps.unanswered()) connection.send({ tap });
      drain();
    },
  },
);

taps.cooldownMs = room.cooldown_ms;
for (const button of palette.children) adopt(/** @type {HTMLElement} */ (button));
listenForPresses(palette, ".pad", pressed);
get("retry").addEventListener("click", () => connection.open());
follow(connection);
