// The line: blocked, asleep, put away, plain.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { afterEach, test } from "node:test";
import { frames, hide, join, joined, LAN_NAME, makeRoom, open, order, rig, settle, shown, tap, tidy, until } from "./support.js";

afterEach(tidy);

test("where WebSockets are cut, the fallback takes over and a person is told", async () => {
  const room = await makeRoom();
  const other = await join(room.path);
  await order("websocket refuse");
  const phone = await open(room.path);
  await joined(phone, 15_000);
  assert.match((await phone.textContent("#status")) ?? "", /slower connection/);
  assert.match((await phone.textContent("#note")) ?? "", /blocks live connections/);
  assert.ok(await phone.locator("#note").isVisible());
  await tap(phone, "clap");
  await until(async () => (await shown(other, "clap")) === 1, "its tap counts");
  await tap(other, "clap");
  await until(async () => (await shown(phone, "clap")) === 2, "and it sees those of others");
});

test("a proxy that does not pass WebSockets on is named", async () => {
  // As nginx does without its three lines: every header but those of the hop.
  const proxy = createServer((asked, answer) => {
    const { connection: _connection, upgrade: _upgrade, ...headers } = asked.headers;
    const onward = request(rig.url + asked.url, { method: asked.method, headers: { ...headers, "x-forwarded-for": "192.0.2.7" } });
    onward.on("response", (reply) => {
      answer.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(answer);
    });
    onward.on("error", () => answer.destroy());
    answer.on("close", () => onward.destroy());
    asked.pipe(onward);
  });
  await new Promise((done) => proxy.listen(0, "127.0.0.1", () => done(null)));
  try {
    const room = await makeRoom();
    const { port } = /** @type {import("node:net").AddressInfo} */ (proxy.address());
    const phone = await open(room.path, { origin: `http://127.0.0.1:${port}` });
    await joined(phone, 15_000);
    assert.match((await phone.textContent("#note")) ?? "", /“127\.0\.0\.1”, between you and Uproar/);
    await tap(phone, "clap");
    await until(async () => (await room.totals()).clap === 1, "its tap counts");
    await phone.context().close();
  } finally {
    proxy.closeAllConnections();
    proxy.close();
  }
});

test("no such room: the page says so in the visitor's language", async () => {
  const page = await open("/NOSUCH", { locale: "de-DE" });
  assert.ok(await page.getByText("Einen Raum „NOSUCH“ gibt es nicht").isVisible());
});

test("a phone that wakes up finds a dead line within two seconds", async () => {
  const room = await makeRoom();
  const phone = await join(room.path);
  await hide(phone, true);
  await order("stall");
  await hide(phone, false);
  const woken = Date.now();
  await phone.waitForSelector('body:not([data-line="joined"])', { state: "attached", timeout: 4000 });
  assert.ok(Date.now() - woken < 3000);
  await order("cut", "resume");
  await joined(phone, 15_000);
});

test("a phone that wakes up with a live line keeps it", async () => {
  const room = await makeRoom();
  const phone = await join(room.path);
  const seen = frames(phone);
  await phone.reload();
  await joined(phone);
  await hide(phone, true);
  await hide(phone, false);
  await until(() => seen.heard.some((frame) => frame.pong), "the ping is answered");
  await settle(2500);
  assert.equal(seen.sent.filter((frame) => frame.join).length, 1);
  assert.equal(await phone.getAttribute("body", "data-line"), "joined");
});

test("back from the back-forward cache the page is live at once", async () => {
  const room = await makeRoom();
  const phone = await join(room.path);
  await tap(phone, "clap");
  await until(async () => (await room.totals()).clap === 1, "counted");
  await phone.evaluate(() => {
    addEventListener("pageshow", (event) => (/** @type {any} */ (window).restored = event.persisted));
  });
  await phone.goto(`${rig.url}/`);
  await room.crowd("clap", 2);
  // Not goBack: it waits for a load, and a page from the cache has loaded long ago.
  await phone.evaluate(() => history.back());
  await phone.waitForURL(`**${room.path}`, { waitUntil: "commit" });
  await joined(phone);
  assert.equal(await phone.evaluate(() => /** @type {any} */ (window).restored), true, "it came from the cache");
  await until(async () => (await shown(phone, "clap")) === 3, "with today's totals");
  await tap(phone, "clap");
  await until(async () => (await room.totals()).clap === 4, "and takes taps");
});

test("over plain HTTP on a LAN name, where no secure-context API exists", async () => {
  const room = await makeRoom();
  const { port } = new URL(rig.url);
  const origin = `http://${LAN_NAME}:${port}`;
  const phone = await join(room.path, { origin });
  assert.deepEqual(await phone.evaluate(() => [isSecureContext, typeof crypto.randomUUID]), [false, "undefined"]);
  await tap(phone, "clap");
  await until(async () => (await room.totals()).clap === 1, "it counts");
});

test("a phone is known again after a reload, and a page is not", async () => {
  const room = await makeRoom();
  const phone = await join(room.path);
  const seen = frames(phone);
  await phone.reload();
  await joined(phone);
  await phone.reload();
  await joined(phone);
  const joins = seen.sent.flatMap((frame) => (frame.join ? [frame.join] : []));
  assert.equal(joins.length, 2);
  assert.equal(joins[0].client, joins[1].client);
  assert.notEqual(joins[0].page, joins[1].page);
  assert.match(joins[0].client, /^[0-9a-f]{32}$/);
});

test("without storage a page works all the same", async () => {
  const room = await makeRoom();
  const before = (/** @type {import("playwright-core").Page} */ page) =>
    page.addInitScript(() =>
      Object.defineProperty(window, "localStorage", {
        get() {
          throw new DOMException("no", "SecurityError");
        },
      }),
    );
  const phone = await join(room.path, { before });
  await tap(phone, "clap");
  await until(async () => (await room.totals()).clap === 1, "it counts");
});
