// One rig and one Chromium for all browser tests: the real services behind a proxy that cuts, stalls and refuses.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { existsSync, mkdirSync } from "node:fs";
import { createInterface } from "node:readline";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const top = fileURLToPath(new URL("../../../../", import.meta.url));
/** Where `cargo build --profile ci` puts it. */
const program = process.env.UPROAR_LOADTEST ?? `${process.env.CARGO_TARGET_DIR ?? `${top}target`}/ci/uproar-loadtest`;
export const output = fileURLToPath(new URL("../output/", import.meta.url));
mkdirSync(output, { recursive: true });

// ---- slides of somebody else, to lie beneath a stage

const deck = createServer((_, answer) => {
  answer.setHeader("content-type", "text/html; charset=utf-8");
  answer.end(`<!doctype html><meta charset="utf-8"><title>Deck</title><style>
    body { margin: 0; height: 100vh; display: grid; align-content: center; padding: 0 9vw; background: #f3f1ec; color: #22303c; font: 600 2.6vw/1.4 Georgia, "DejaVu Serif", serif }
    h1 { font-size: 5.4vw; line-height: 1.1; margin: 0 0 4vh; max-width: 15em } p { margin: 0; color: #5b6a76; max-width: 26em } hr { width: 9vw; margin: 0 0 5vh; border: 0; border-top: .6vw solid #2f7f79 }
    </style><hr><h1>What ten years of outages taught us</h1><p>Every queue has a bound. Every retry has a reason. Every alert has a person.</p>`);
});
await new Promise((done) => deck.listen(0, "127.0.0.1", () => done(null)));
const deckHost = `127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (deck.address()).port}`;
export const slidesUrl = `http://${deckHost}/deck`;

// ---- the rig

const child = spawn(program, ["rig", "--set", `UPROAR_GATEWAY__SLIDES_HOSTS=${deckHost}`], { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((done) => child.once("exit", done));
child.once("error", (error) => {
  throw new Error(`${program} cannot be started: build it first, with: cargo build --profile ci`, { cause: error });
});
const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
async function line() {
  const next = await lines.next();
  assert.ok(!next.done, "the rig ended early; what it said is above");
  return JSON.parse(next.value);
}
/** @type {{ url: string, gateways: string[], admin_key: string }} */
export const rig = await line();

/** Tells the rig to break or mend something. @param {string[]} orders */
export async function order(...orders) {
  for (const text of orders) {
    child.stdin.write(`${text}\n`);
    const answer = await line();
    assert.deepEqual(answer, { done: text });
  }
}

// ---- the browser

/** A name that is not `localhost`, so that the page is no secure context, as on a LAN address. */
export const LAN_NAME = "uproar-lan.test";

/** The system's Chromium, under the names that distributions give it. */
function chromiumPath() {
  const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
  const folders = (process.env.PATH ?? "").split(":");
  const found = names.flatMap((name) => folders.map((folder) => `${folder}/${name}`)).find((path) => existsSync(path));
  return process.env.CHROMIUM ?? found ?? assert.fail("no Chromium: install the package chromium, or name it in CHROMIUM");
}

export const browser = await chromium.launch({
  executablePath: chromiumPath(),
  // Playwright switches the back-forward cache off; a test is about it.
  ignoreDefaultArgs: ["--disable-back-forward-cache"],
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    `--host-resolver-rules=MAP ${LAN_NAME} 127.0.0.1`,
  ],
});

/** @type {import("playwright-core").BrowserContext[]} */
let contexts = [];
/** What pages asked of other hosts, and what went wrong in them. @type {string[]} */
export const complaints = [];

after(async () => {
  await browser.close();
  child.stdin.end();
  deck.close();
  await ended;
});

export const PHONE = { width: 390, height: 844 };
export const SCREEN = { width: 1920, height: 1080 };

/** Opens a page in a browser of its own: another phone.
 * @param {string} path
 * @param {import("playwright-core").BrowserContextOptions & { before?: (page: import("playwright-core").Page) => Promise<unknown>, origin?: string }} [options]
 */
export async function open(path, options = {}) {
  const { before, origin = rig.url, ...rest } = options;
  const small = (rest.viewport ?? PHONE).width < 700;
  const context = await browser.newContext({ viewport: PHONE, hasTouch: small, isMobile: small, locale: "en-GB", ...rest });
  contexts.push(context);
  const page = await context.newPage();
  page.on("pageerror", (error) => complaints.push(`${path}: ${error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    // A policy that was broken is our mistake; a connection that a test cut is not.
    if (message.type() === "error" && /policy|refused to/i.test(text)) complaints.push(`${path}: ${text}`);
  });
  page.on("request", (request) => {
    const { host, protocol } = new URL(request.url());
    const ours = [new URL(origin).host, new URL(rig.url).host, deckHost].includes(host);
    if (!ours && protocol !== "data:") complaints.push(`${path}: asked ${request.url()}`);
  });
  await before?.(page);
  await page.goto(origin + path);
  return page;
}

/** Opens a page of a room and waits until it has joined. @type {typeof open} */
export async function join(path, options) {
  const page = await open(path, options);
  await joined(page);
  return page;
}

/** @param {import("playwright-core").Page} page @param {number} [ms] */
export const joined = (page, ms = 10_000) => page.waitForSelector('body[data-line="joined"]', { state: "attached", timeout: ms });

/** Closes what a test opened, and mends what it broke: an `afterEach`. */
export async function tidy() {
  await Promise.all(contexts.map((context) => context.close()));
  contexts = [];
  await order("resume");
}

// ---- rooms

/**
 * @param {string} method
 * @param {string} path
 * @param {string} token
 * @param {object} [body]
 */
async function api(method, path, token, body) {
  // Past the proxy: a test's faults are for the browsers.
  const answer = await fetch(rig.gateways[0] + path, {
    method,
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: body && JSON.stringify(body),
  });
  const said = await answer.json();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${JSON.stringify(said)}`);
  return said;
}

export const PALETTE = [
  { key: "clap", emoji: "👏", label: "Applause" },
  { key: "love", emoji: "❤️", label: "Love" },
  { key: "laugh", emoji: "😂", label: "Funny" },
  { key: "party", emoji: "🎉", label: "Celebrate" },
  { key: "mind", emoji: "🤯", label: "Mind blown" },
  { key: "ask", emoji: "🤔", label: "Question" },
];

/** Makes a room of its own for a test.
 * @param {{ title?: string, cooldown_ms?: number, palette?: typeof PALETTE }} [wanted]
 */
export async function makeRoom(wanted) {
  const made = await api("POST", "/v1/rooms", rig.admin_key, { title: "Test", cooldown_ms: 250, palette: PALETTE, ...wanted });
  /** @type {string} */
  const code = made.code;
  return {
    code,
    path: `/${code}`,
    hostPath: `/${code}/host#token=${made.host_token}`,
    /** @param {object} change */
    patch: (change) => api("PATCH", `/v1/rooms/${code}`, made.host_token, change),
    /** @returns {Promise<Record<string, number>>} */
    totals: async () => (await api("GET", `/v1/rooms/${code}`, "")).totals,
    /** So many phones tap once, by way of the fallback. @param {string} key @param {number} phones */
    crowd: (key, phones) =>
      Promise.all(
        Array.from({ length: phones }, () => {
          const hex = (/** @type {number} */ bytes) => Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex");
          const taps = [{ key, seq: 1, age_ms: 0 }];
          return api("POST", `/v1/rooms/${code}/taps`, "", { client: hex(16), page: hex(4), taps });
        }),
      ),
  };
}

// ---- waiting and looking

/** Waits for a condition, never for a duration.
 * @param {() => unknown} holds
 * @param {string} what
 * @param {number} [ms]
 */
export async function until(holds, what, ms = 8000) {
  const end = Date.now() + ms;
  for (;;) {
    if (await holds()) return;
    assert.ok(Date.now() < end, `not within ${ms} ms: ${what}`);
    await new Promise((later) => setTimeout(later, 20));
  }
}

/** For what must not happen: there is no condition to wait for. @param {number} ms */
export const settle = (ms) => new Promise((later) => setTimeout(later, ms));

/** @param {import("playwright-core").Page} page @param {string} key */
export const shown = async (page, key) => {
  const text = await page.textContent(`.pad[data-key="${key}"] .total`);
  return text?.trim() ? Number(text.replace(/\D/g, "")) : null;
};

/** @param {import("playwright-core").Page} page @param {string} key */
export const tap = (page, key) => page.locator(`.pad[data-key="${key}"]`).tap();

/** How many emoji a stage has shown so far. @param {import("playwright-core").Page} stage */
export const born = (stage) => stage.$eval("#sky", (sky) => Number(/** @type {HTMLElement} */ (sky).dataset.born ?? 0));

/** Keeps the frames that a page sends and hears. @param {import("playwright-core").Page} page */
export function frames(page) {
  /** @type {any[]} */
  const sent = [];
  /** @type {any[]} */
  const heard = [];
  page.on("websocket", (socket) => {
    socket.on("framesent", ({ payload }) => sent.push(JSON.parse(String(payload))));
    socket.on("framereceived", ({ payload }) => heard.push(JSON.parse(String(payload))));
  });
  return { sent, heard };
}

/** Hides or shows a page, as a phone's lock button does. @param {import("playwright-core").Page} page @param {boolean} hidden */
export const hide = (page, hidden) =>
  page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (hidden ? "hidden" : "visible") });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
