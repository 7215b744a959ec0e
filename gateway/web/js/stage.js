// The overlay on the slides: emoji rise over whatever lies beneath, with code and QR in a corner.
//
// Only growth that arrives while the stage is looked at makes emoji. What a join brings, and what came while the stage
// was hidden, changes the totals and nothing else: a reload never replays the past.

import { follow, Connection } from "./connection.js";
import { hex } from "./ids.js";
import { amount, calm, data, get, text } from "./page.js";
import { ALIVE_MAX, births, CALM_MAX, place, Pool, TICK_MS } from "./particles.js";
import { merge } from "./taps.js";

const options = new URLSearchParams(location.search);
const off = (/** @type {string} */ name) => options.get(name) === "off";
const scale = Math.min(3, Math.max(0.5, Number(options.get("scale")) || 1));
const area = options.get("area") ?? "wide";

const canvas = /** @type {HTMLCanvasElement} */ (get("sky"));
const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
const pool = new Pool(ALIVE_MAX);
/** @type {import("./types.js").Totals} */
const totals = Object.create(null);
let room = data.room;

// ---- how it is set up

const body = document.body;
body.dataset.corner = /^[tb][lr]$/.test(options.get("corner") ?? "") ? /** @type {string} */ (options.get("corner")) : "br";
body.dataset.background = options.get("background") ?? "none";
document.documentElement.style.setProperty("--scale", String(scale));
get("card").hidden = off("code");
get("meter").hidden = off("meter");

if (data.slides) {
  const frame = document.createElement("iframe");
  frame.id = "slides";
  frame.title = text("slides");
  // With our own origin the frame could reach out of its sandbox.
  const own = new URL(data.slides).origin === location.origin;
  frame.setAttribute("sandbox", `allow-scripts allow-forms allow-popups allow-presentation${own ? "" : " allow-same-origin"}`);
  frame.allow = "fullscreen; autoplay";
  frame.src = data.slides;
  body.prepend(frame);
} else if (data.refused_slides) {
  const notice = get("notice");
  notice.textContent = text("slides_refused", { slides: data.refused_slides });
  notice.hidden = false;
  setTimeout(() => (notice.hidden = true), 15_000);
}

// ---- emoji

/** An emoji's picture, drawn once: drawing text sixty times a frame is what makes overlays stutter.
 * @type {Map<string, HTMLCanvasElement>}
 */
const sprites = new Map();
const SPRITE_PX = 192;

/** @param {string} key */
function sprite(key) {
  const emoji = room.palette.find((entry) => entry.key === key)?.emoji;
  if (!emoji) return null;
  let drawn = sprites.get(emoji);
  if (!drawn) {
    drawn = document.createElement("canvas");
    drawn.width = drawn.height = SPRITE_PX;
    const own = /** @type {CanvasRenderingContext2D} */ (drawn.getContext("2d"));
    own.font = `${SPRITE_PX * 0.74}px "Apple Color Emoji","Segoe UI Emoji","Noto Color Emoji",sans-serif`;
    own.textAlign = "center";
    own.textBaseline = "middle";
    own.fillText(emoji, SPRITE_PX / 2, SPRITE_PX * 0.54);
    sprites.set(emoji, drawn);
  }
  return drawn;
}

let width = 0;
let height = 0;
let dense = 1;
function fit() {
  dense = Math.min(2, devicePixelRatio || 1);
  width = innerWidth;
  height = innerHeight;
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
}
addEventListener("resize", fit);
fit();

/** Where across the stage they rise. @param {number} x */
const across = (x) => (area === "left" ? 0.02 + x * 0.25 : area === "right" ? 0.73 + x * 0.25 : 0.03 + x * 0.94);

let drawing = false;
/** @param {number} now */
function draw(now) {
  pool.sweep(now);
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  drawing = pool.alive > 0 && !document.hidden;
  if (!drawing) return;
  const still = calm();
  const unit = Math.max(34, Math.min(width, height * 1.4) * 0.054) * scale;
  for (let i = 0; i < pool.alive; i += 1) {
    const one = pool.all[i];
    const at = place(one, now, still);
    const picture = at && sprite(one.key);
    if (!at || !picture) continue;
    const size = unit * one.size * at.scale * dense;
    const [sin, cos] = [Math.sin(at.turn), Math.cos(at.turn)];
    const y = canvas.height * (1 - at.y) + size * (1 - at.y) * 0.6;
    pen.setTransform(cos, sin, -sin, cos, across(at.x) * canvas.width, y);
    pen.globalAlpha = at.alpha;
    pen.drawImage(picture, -size / 2, -size / 2, size, size);
  }
  requestAnimationFrame(draw);
}

/** @param {import("./types.js").Totals} grown */
function celebrate(grown) {
  const max = calm() ? CALM_MAX : ALIVE_MAX;
  const now = performance.now();
  pool.sweep(now);
  const born = births(grown, max - pool.alive, Math.random, max);
  born.forEach((birth, index) => {
    pool.add(birth, now + ((index + Math.random()) / born.length) * TICK_MS, Math.random);
  });
  // For whoever wonders what the stage does, and for tests.
  canvas.dataset.born = String(Number(canvas.dataset.born ?? 0) + born.length);
  canvas.dataset.peak = String(Math.max(Number(canvas.dataset.peak ?? 0), pool.alive));
  if (!drawing && born.length) {
    drawing = true;
    requestAnimationFrame(draw);
  }
}

// ---- the meter: what is more than the screen can hold

/** @type {{ at: number, taps: number }[]} */
let recent = [];
let loudest = 20;
function measure(taps = 0) {
  const now = performance.now();
  if (taps) recent.push({ at: now, taps });
  recent = recent.filter(({ at }) => now - at < 2000);
  const rate = recent.reduce((sum, one) => sum + one.taps, 0) / 2;
  loudest = Math.max(loudest * 0.999, rate, 20);
  get("level").style.transform = `scaleX(${Math.log2(1 + rate) / Math.log2(1 + loudest)})`;
  get("rate").textContent = rate >= 1 ? text("rate", { n: amount(Math.round(rate)) }) : "";
}
setInterval(measure, 500);

// ---- frames

function show() {
  get("title").textContent = room.title;
  body.dataset.state = room.state;
  const begun = Object.values(totals).some((total) => total > 0);
  body.classList.toggle("idle", !begun && room.state === "open" && !off("idle") && !off("code") && !data.slides);
}

/** @param {import("./types.js").ServerFrame} frame */
function take(frame) {
  if (frame.room) {
    room = frame.room;
    merge(totals, frame.room.totals);
    show();
  }
  if (frame.tick) {
    const grown = merge(totals, frame.tick.totals);
    if (document.hidden) return;
    celebrate(grown);
    measure(Object.values(grown).reduce((sum, by) => sum + by, 0));
    if (body.classList.contains("idle")) show();
  }
}

document.addEventListener("visibilitychange", () => {
  pool.clear();
  recent = [];
  if (!document.hidden) requestAnimationFrame(draw);
});

const connection = new Connection(
  // A stage is nobody: it is not counted, so it needs no id that lasts.
  { code: data.code, role: "stage", client: hex(16) },
  {
    frame: take,
    status(now) {
      body.dataset.line = now.name;
    },
  },
);
follow(connection);
