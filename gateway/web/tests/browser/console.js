// Those who run rooms: the start page, making a room, and the host's page.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import jsQR from "jsqr";
import { PNG } from "pngjs";
import { join, joined, makeRoom, open, rig, SCREEN, shown, tap, tidy, until } from "./support.js";

/** @type {typeof import("jsqr").default} */
const decode = /** @type {any} */ (jsQR);

afterEach(tidy);

/** @param {import("playwright-core").Page} page @param {{ x: number, y: number, width: number, height: number }} [clip] */
async function scan(page, clip) {
  const { data, width, height } = PNG.sync.read(await page.screenshot({ clip }));
  // Not turned around: a camera app that only reads dark on light must find it too.
  return decode(new Uint8ClampedArray(data), width, height, { inversionAttempts: "dontInvert" })?.data;
}

test("a code is found however it is typed", async () => {
  const room = await makeRoom({ title: "Found" });
  const [a, b] = [room.code.slice(0, 3), room.code.slice(3)];
  for (const typed of [room.code.toLowerCase(), ` ${a} ${b} `, `${a}-${b}`, `${a.toLowerCase()} – ${b}`]) {
    const page = await open("/");
    await page.fill("#code", typed);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/${room.code}`);
    assert.ok(await page.getByRole("heading", { name: "Found" }).isVisible());
  }
});

test("a code that is none, or of no room, is told at the field", async () => {
  const page = await open("/");
  await page.fill("#code", "ab");
  await page.keyboard.press("Enter");
  await page.getByText("4 to 12 letters and digits").waitFor();
  await page.fill("#code", "ZZZZZZ");
  await page.keyboard.press("Enter");
  await page.getByText("There is no room “ZZZZZZ”").waitFor();
  assert.equal(await page.getAttribute("#code", "aria-invalid"), "true");
});

test("a room is made on the page, and its links and QR code lead to it", async () => {
  const page = await open("/new", { viewport: SCREEN });
  await page.fill("#key", "wrong");
  await page.fill("#title", "Made by hand");
  await page.click("#create");
  await page.getByText("This key is not right.", { exact: true }).waitFor();
  await page.fill("#key", rig.admin_key);
  await page.getByRole("button", { name: "Add Idea" }).click();
  await page.selectOption("#cooldown", "1000");
  await page.click("#create");
  await page.getByRole("heading", { name: "“Made by hand” is open" }).waitFor();
  const links = await page.$$eval("#links input", (fields) => fields.map((field) => /** @type {HTMLInputElement} */ (field).value));
  const code = (await page.textContent("#made-code")) ?? "";
  assert.deepEqual(links.slice(0, 2), [`${rig.url}/${code}`, `${rig.url}/${code}/stage`]);
  assert.ok(links[2].startsWith(`${rig.url}/${code}/host#token=`));
  await until(() => page.$eval("#qr", (qr) => /** @type {HTMLImageElement} */ (qr).complete), "the QR code is there");
  assert.equal(await scan(page), links[0]);
  const phone = await join(`/${code}`);
  assert.equal(await phone.locator('.pad[data-key="idea"]').count(), 1);
  const host = await open(new URL(links[2]).pathname + new URL(links[2]).hash);
  await joined(host);
});

test("an emoji that is none is refused where it stands", async () => {
  const page = await open("/new", { viewport: SCREEN });
  await page.fill("#key", rig.admin_key);
  await page.fill("#title", "T");
  await page.locator(".rows .emoji").nth(1).fill("1");
  await page.click("#create");
  await until(async () => (await page.locator(".rows .emoji").nth(1).getAttribute("aria-invalid")) === "true", "it is marked");
  assert.notEqual(await page.textContent("#notice"), "");
});

test("on a dark page and on a stage the QR code is dark on light and scans", async () => {
  const room = await makeRoom();
  for (const [path, selector] of [[room.hostPath, "#qr"], [`${room.path}/stage`, "#card img"]]) {
    const page = await join(path, { viewport: SCREEN, colorScheme: "dark" });
    await until(() => page.$eval(selector, (qr) => /** @type {HTMLImageElement} */ (qr).naturalWidth > 0), "the QR code is there");
    assert.equal(await scan(page), `${rig.url}/${room.code}`, path);
  }
});

test("the host's token leaves the address and stays with the tab", async () => {
  const room = await makeRoom();
  const host = await join(room.hostPath);
  assert.equal(await host.evaluate(() => location.hash + location.href.includes("token")), "false");
  await host.reload();
  await joined(host);
  const stranger = await open(`${room.path}/host`);
  assert.ok(await stranger.getByText("open the host link").isVisible());
  assert.ok(!(await stranger.locator("#console").isVisible()));
  await stranger.fill("#key", rig.admin_key);
  await stranger.click("text=Run the room");
  await joined(stranger);
});

test("a host sees people and taps, and changes title, palette and cooldown", async () => {
  const room = await makeRoom({ title: "Before" });
  const [phone, host] = [await join(room.path), await join(room.hostPath, { viewport: SCREEN })];
  await until(async () => (await host.textContent("#people")) === "1", "one person", 15_000);
  await tap(phone, "clap");
  await until(async () => (await host.textContent('#totals [data-key="clap"] .number')) === "1", "the total");
  await until(async () => Number(await host.textContent("#rate")) >= 0 && (await host.getAttribute("#chart-line", "points")), "the chart");
  assert.match((await host.getAttribute("#chart", "aria-label")) ?? "", /at most \d/);

  await host.fill("#title-field", "After");
  await host.selectOption("#cooldown", "1000");
  await host.getByRole("button", { name: "Remove" }).nth(1).click();
  await host.getByRole("button", { name: "Add Idea" }).click();
  await host.click("#save");
  await host.getByText("Saved").waitFor();
  await phone.getByRole("heading", { name: "After" }).waitFor();
  const keys = await phone.$$eval(".pad", (pads) => pads.map((pad) => /** @type {HTMLElement} */ (pad).dataset.key));
  assert.deepEqual(keys, ["clap", "laugh", "party", "mind", "ask", "idea"]);
  assert.equal(await shown(phone, "clap"), 1, "what stays keeps its total");
  await phone.waitForSelector("body:not(.cooling)");
  await tap(phone, "idea");
  await until(async () => (await room.totals()).idea === 1, "the new one counts");

  await host.getByRole("button", { name: "Paused" }).click();
  await phone.waitForSelector('body[data-state="paused"]');
  // The host's page, too, must have heard of it: what it hears while it asks takes the question back.
  await host.waitForSelector('body[data-state="paused"]');
  await host.getByRole("button", { name: "Closed" }).click();
  await host.getByRole("button", { name: "Really close?" }).click();
  await phone.waitForSelector('body[data-state="closed"]');
});

test("a host who is typing is not overwritten by another host's change", async () => {
  const room = await makeRoom({ title: "Before" });
  const host = await join(room.hostPath, { viewport: SCREEN });
  await host.fill("#title-field", "Half typed");
  await room.patch({ title: "By another" });
  await host.getByRole("heading", { name: "By another" }).waitFor();
  assert.equal(await host.inputValue("#title-field"), "Half typed");
  await host.click("#discard");
  assert.equal(await host.inputValue("#title-field"), "By another");
});

test("a token that is not good ends at the question for a key", async () => {
  const room = await makeRoom();
  const host = await open(`${room.path}/host#token=nonsense`);
  await until(() => host.locator("#ask").isVisible(), "the question");
  assert.ok(!(await host.locator("#console").isVisible()));
});
