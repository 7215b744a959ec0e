// Tapping: from a thumb to everyone's totals.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { born, frames, join, makeRoom, order, settle, shown, tap, tidy, until } from "./support.js";

afterEach(tidy);

test("two phones and a stage see one tap", async () => {
  const room = await makeRoom({ cooldown_ms: 3000 });
  const [one, other, stage] = await Promise.all([join(room.path), join(room.path), join(`${room.path}/stage`)]);
  await tap(one, "clap");
  assert.equal(await shown(one, "clap"), 1, "the own tap is shown at once");
  await until(async () => (await shown(other, "clap")) === 1, "the other phone shows it", 1000);
  await until(async () => (await born(stage)) === 1, "the stage shows one emoji", 1000);
  await settle(600);
  assert.equal(await shown(one, "clap"), 1, "and it is not counted a second time when the totals come");
  assert.equal(await born(stage), 1);
});

test("taps made offline are sent afterwards: the last three, one per cooldown", async () => {
  const room = await makeRoom({ cooldown_ms: 300 });
  const [phone, other] = await Promise.all([join(room.path), join(room.path)]);
  await order("refuse", "cut");
  await phone.waitForSelector('body:not([data-line="joined"])', { state: "attached" });
  for (const key of ["mind", "clap", "love", "laugh"]) {
    await tap(phone, key);
    await settle(350);
  }
  assert.match((await phone.textContent("#status")) ?? "", /Offline\. 3 of your taps/);
  assert.equal(await shown(phone, "love"), 1);
  await order("resume");
  await until(async () => (await shown(other, "laugh")) === 1, "the last of them has arrived", 20_000);
  assert.deepEqual(await room.totals(), { clap: 1, love: 1, laugh: 1 });
  await until(async () => (await phone.textContent("#status")) === "Live", "all are sent");
});

test("a tap whose answer was lost is sent again and counted once", async () => {
  const room = await makeRoom();
  const phone = await join(room.path);
  const seen = frames(phone);
  await phone.reload();
  await joinedWith(phone, seen);
  // The acknowledgement cannot come back; the tap may or may not have been taken.
  await order("stall");
  await tap(phone, "clap");
  await settle(200);
  await order("cut", "resume");
  await until(() => seen.heard.some((frame) => frame.ack === 1), "it is acknowledged in the end", 20_000);
  const attempts = seen.sent.filter((frame) => frame.tap?.seq === 1);
  assert.equal(attempts.length, 2);
  assert.equal(attempts[0].tap.age_ms, undefined);
  assert.ok(attempts[1].tap.age_ms >= 200);
  await until(async () => (await room.totals()).clap === 1, "it is counted");
  await settle(600);
  assert.deepEqual(await room.totals(), { clap: 1 });
});

/** @param {import("playwright-core").Page} page @param {ReturnType<typeof frames>} seen */
const joinedWith = (page, seen) => until(async () => seen.heard.some((frame) => frame.room) && (await page.$('body[data-line="joined"]')), "joined");

test("fast tapping: no zoom, every allowed tap counts, none is swallowed", async () => {
  const room = await makeRoom({ cooldown_ms: 250 });
  const phone = await join(room.path);
  const box = await phone.locator('.pad[data-key="clap"]').boundingBox();
  assert.ok(box);
  const touch = await phone.context().newCDPSession(phone);
  const at = (/** @type {number} */ id, dx = 0) => ({ x: box.x + 60 + dx, y: box.y + 60, id });
  await phone.evaluate(() => {
    const w = /** @type {any} */ (window);
    w.lifted = [];
    addEventListener("pointerup", () => w.lifted.push(performance.now()), { capture: true });
  });
  for (let n = 0; n < 40; n += 1) {
    await touch.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: [at(0)] });
    await touch.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
    await settle(20);
  }
  /** @type {number[]} */
  const lifted = await phone.evaluate(() => /** @type {any} */ (window).lifted);
  assert.equal(lifted.length, 40);
  // Allowed is the first, and each one that comes a cooldown after the last allowed one.
  let [allowed, last] = [0, -Infinity];
  for (const time of lifted) if (time - last >= 250) [allowed, last] = [allowed + 1, time];
  const counted = await shown(phone, "clap");
  // One may fall on the very edge of a cooldown.
  assert.ok(counted !== null && counted > 1 && Math.abs(counted - allowed) <= 1, `${counted} of ${allowed}`);
  await until(async () => (await room.totals()).clap === counted, "the page shows what is counted");
  assert.equal(await phone.evaluate(() => visualViewport?.scale), 1);
});

test("the second of two thumbs counts although the first is still down", async () => {
  const room = await makeRoom({ cooldown_ms: 250 });
  const phone = await join(room.path);
  const [left, right] = await Promise.all(["clap", "love"].map((key) => phone.locator(`.pad[data-key="${key}"]`).boundingBox()));
  assert.ok(left && right);
  const touch = await phone.context().newCDPSession(phone);
  const [one, two] = [{ x: left.x + 50, y: left.y + 50, id: 0 }, { x: right.x + 50, y: right.y + 50, id: 1 }];
  await touch.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: [one] });
  await touch.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: [one, two] });
  await touch.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [one] });
  await settle(300);
  await touch.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
  await until(async () => Object.keys(await room.totals()).length === 2, "both count");
  assert.deepEqual(await room.totals(), { clap: 1, love: 1 });
});

test("the cooldown is drawn as a ring, and a tap within it is not sent", async () => {
  const room = await makeRoom({ cooldown_ms: 2000 });
  const phone = await join(room.path);
  const ring = () => phone.$eval('.pad[data-key="clap"] circle', (circle) => Number(getComputedStyle(circle).strokeDashoffset.replace("px", "")));
  await tap(phone, "clap");
  await settle(300);
  const early = await ring();
  await tap(phone, "love");
  await settle(700);
  const late = await ring();
  assert.ok(early > 0 && early < late && late < 100, `${early} ${late}`);
  assert.equal(await shown(phone, "love"), 0);
  await phone.waitForSelector("body:not(.cooling)");
  await tap(phone, "love");
  await until(async () => (await room.totals()).love === 1, "after it the next one counts");
});

test("a paused room says so and takes nothing; a closed one too", async () => {
  const room = await makeRoom();
  const phone = await join(room.path);
  await room.patch({ state: "paused" });
  await phone.waitForSelector('body[data-state="paused"]');
  assert.ok(await phone.getByText("Paused. The host will go on").isVisible());
  await tap(phone, "clap");
  assert.equal(await shown(phone, "clap"), 0);
  const late = await join(room.path);
  assert.ok(await late.getByText("Paused. The host will go on").isVisible(), "also for whoever comes now");
  await room.patch({ state: "open" });
  await phone.waitForSelector('body[data-state="open"]');
  await tap(phone, "clap");
  await until(async () => (await room.totals()).clap === 1, "open again, it counts");
  await room.patch({ state: "closed" });
  await phone.waitForSelector('body[data-state="closed"]');
  assert.ok(await phone.getByText("This room is closed").isVisible());
});

test("a palette that changes while people tap", async () => {
  const room = await makeRoom();
  const phone = await join(room.path);
  const seen = frames(phone);
  await phone.reload();
  await joinedWith(phone, seen);
  await tap(phone, "love");
  await until(async () => (await room.totals()).love === 1, "the old palette counts");
  await phone.waitForSelector("body:not(.cooling)");
  // The tap is on its way, and the news of the new palette too.
  await order("delay 400");
  const fresh = { key: "fire", emoji: "🔥", label: "Fire" };
  await tap(phone, "love");
  await room.patch({ palette: [{ key: "clap", emoji: "👏", label: "Applause" }, fresh] });
  await until(() => seen.heard.some((frame) => frame.refused?.why === "unknown_reaction"), "the removed reaction is refused");
  await phone.waitForSelector('.pad[data-key="fire"]');
  assert.deepEqual(await phone.$$eval(".pad", (pads) => pads.map((pad) => /** @type {HTMLElement} */ (pad).dataset.key)), ["clap", "fire"]);
  assert.match((await phone.textContent("#status")) ?? "", /taken this reaction away|Live/);
  await order("resume");
  await tap(phone, "fire");
  await until(async () => (await room.totals()).fire === 1, "the new one counts");
  assert.equal((await room.totals()).love, 1, "old totals stay");
});

test("a clock that is half a minute off", async () => {
  for (const off of [30_000, -30_000]) {
    const room = await makeRoom({ cooldown_ms: 500 });
    const before = (/** @type {import("playwright-core").Page} */ page) =>
      page.addInitScript((off) => {
        const real = Date.now.bind(Date);
        Date.now = () => real() + off;
      }, off);
    const [phone, stage] = await Promise.all([join(room.path, { before }), join(`${room.path}/stage`, { before })]);
    for (let n = 1; n <= 3; n += 1) {
      await tap(phone, "clap");
      await until(async () => (await room.totals()).clap === n, "it counts");
      await phone.waitForSelector("body:not(.cooling)");
    }
    await until(async () => (await born(stage)) === 3, "animations run");
  }
});

test("keys: Tab reaches a button, Enter and Space tap", async () => {
  const room = await makeRoom();
  const phone = await join(room.path, { hasTouch: false, isMobile: false });
  await until(async () => {
    await phone.keyboard.press("Tab");
    return phone.evaluate(() => /** @type {HTMLElement} */ (document.activeElement)?.dataset.key === "clap");
  }, "the first reaction has the focus");
  await phone.keyboard.press("Enter");
  await phone.waitForSelector("body:not(.cooling)");
  await phone.keyboard.press("Tab");
  await phone.keyboard.press("Space");
  await until(async () => Object.keys(await room.totals()).length === 2, "both count");
  assert.deepEqual(await room.totals(), { clap: 1, love: 1 });
  const outline = await phone.evaluate(() => getComputedStyle(/** @type {Element} */ (document.activeElement)).outlineStyle);
  assert.equal(outline, "solid", "the focus is seen");
  // A host's change leaves the focus where it is.
  await room.patch({ title: "Renamed" });
  await phone.getByText("Renamed").waitFor();
  assert.equal(await phone.evaluate(() => /** @type {HTMLElement} */ (document.activeElement)?.dataset.key), "love");
});
