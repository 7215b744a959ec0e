// For eyes and ears: contrast, layout, languages, writing directions, screen readers.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { join, makeRoom, open, PHONE, SCREEN, settle, tap, tidy, until } from "./support.js";

afterEach(tidy);

test("a screen reader hears the totals, but not each tick", async () => {
  const room = await makeRoom();
  const phone = await join(room.path);
  await phone.evaluate(() => {
    const w = /** @type {any} */ (window);
    const live = /** @type {HTMLElement} */ (document.getElementById("live"));
    w.told = [];
    new MutationObserver(() => w.told.push(live.textContent)).observe(live, { childList: true });
  });
  const end = Date.now() + 7000;
  let taps = 0;
  while (Date.now() < end) {
    await room.crowd("clap", 1);
    taps += 1;
    await settle(200);
  }
  const told = await phone.evaluate(() => /** @type {any} */ (window).told);
  assert.ok(taps > 15);
  assert.equal(told.length, 1, JSON.stringify(told));
  assert.match(told[0], /^Applause \d+, Love 0, /);
});

test("a button is called by its reaction, and nothing else", async () => {
  const room = await makeRoom();
  const phone = await join(room.path);
  await tap(phone, "clap");
  assert.equal(await phone.getByRole("button", { name: "Applause", exact: true }).count(), 1);
  assert.equal(await phone.getByRole("group", { name: "Reactions" }).count(), 1);
});

test("a title that runs from right to left does", async () => {
  const room = await makeRoom({ title: "مستقبل الأنظمة الموزعة" });
  for (const path of [room.path, room.hostPath, `${room.path}/stage`]) {
    const page = await join(path);
    assert.equal(await page.$eval("#title", (title) => getComputedStyle(title).direction), "rtl", path);
    assert.equal(await page.$eval("html", (html) => getComputedStyle(html).direction), "ltr");
  }
});

test("the visitor's language, or the one in the address", async () => {
  const room = await makeRoom();
  const german = await join(room.path, { locale: "de-AT" });
  assert.equal(await german.textContent("#status"), "Live");
  assert.equal(await german.getAttribute("html", "lang"), "de");
  await room.patch({ state: "paused" });
  await german.getByText("Pause. Gleich geht es weiter.").waitFor();
  const asked = await join(`${room.path}?lang=de`);
  assert.ok(await asked.getByText("Pause. Gleich geht es weiter.").isVisible());
  const other = await open("/", { locale: "fr-FR" });
  assert.equal(await other.getAttribute("html", "lang"), "en");
});

test("the palette is there before any script runs", async () => {
  const room = await makeRoom();
  const page = await open(room.path, { javaScriptEnabled: false });
  assert.equal(await page.locator(".pad").count(), 6);
  assert.ok(await page.locator("noscript p").isVisible());
});

test("nothing jumps while a page loads, joins, counts and cools down", async () => {
  const room = await makeRoom();
  const before = (/** @type {import("playwright-core").Page} */ page) =>
    page.addInitScript(() => {
      const w = /** @type {any} */ (window);
      w.shift = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) w.shift += /** @type {any} */ (entry).value;
      }).observe({ type: "layout-shift", buffered: true });
    });
  for (const viewport of [PHONE, SCREEN]) {
    const page = await join(room.path, { before, viewport, hasTouch: true });
    await tap(page, "clap");
    await room.crowd("love", 3);
    await settle(800);
    assert.ok((await page.evaluate(() => /** @type {any} */ (window).shift)) < 0.01);
  }
});

test("everything fits a small phone, with twelve reactions too", async () => {
  const emoji = ["👏", "❤️", "😂", "🎉", "🤯", "🤔", "🔥", "👍", "💡", "😮", "🙌", "🚀"];
  const palette = emoji.map((emoji, index) => ({ key: `r${index}`, emoji, label: `Unzerbrechlichkeit ${index}` }));
  const room = await makeRoom({ title: "Ein ziemlich langer Titel für einen kleinen Bildschirm", palette });
  for (const viewport of [{ width: 320, height: 568 }, PHONE, { width: 844, height: 390 }, SCREEN]) {
    const page = await join(room.path, { viewport });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${viewport.width}: ${wide} px too wide`);
    const small = await page.$$eval(".pad", (pads) => pads.filter((pad) => pad.getBoundingClientRect().height < 44 || pad.getBoundingClientRect().width < 44).length);
    assert.equal(small, 0, "buttons are large enough for a thumb");
  }
  const page = await join(room.path);
  assert.ok(await page.evaluate(() => document.documentElement.scrollHeight <= innerHeight), "no scrolling on a usual phone");
});

test("the usual six fit on one screen, also on a phone held sideways and on a laptop", async () => {
  const room = await makeRoom({ title: "Ein ziemlich langer Titel für einen kleinen Bildschirm" });
  for (const viewport of [{ width: 844, height: 390 }, { width: 667, height: 375 }, { width: 1280, height: 720 }, PHONE, SCREEN]) {
    const page = await join(room.path, { viewport });
    const size = `${viewport.width}x${viewport.height}`;
    const over = await page.evaluate(() => document.documentElement.scrollHeight - innerHeight);
    assert.ok(over <= 0, `${size}: ${over} px too high`);
    const hidden = await page.$$eval(".pad .emoji", (all) => all.filter((one) => one.getBoundingClientRect().bottom > innerHeight).length);
    assert.equal(hidden, 0, `${size}: every emoji is in sight`);
  }
});

/** WCAG AA over a page's texts: the colour of each against the nearest background that is one colour. */
function faint() {
  /** @param {string} text */
  const rgb = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  /** @param {number[]} colour */
  const light = (colour) => {
    const [r, g, b] = colour.map((one) => (one / 255 <= 0.03928 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent?.trim());
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    const unseen = style.visibility !== "visible" || box.width < 2 || element.closest(".unseen, [hidden], :disabled, noscript, script");
    if (!text || unseen || /emoji/.test(element.className) || element.closest("#floats")) continue;
    /** @type {Element | null} */
    let under = element;
    let back = [0, 0, 0, 0];
    while (under) {
      back = rgb(getComputedStyle(under).backgroundColor);
      if (back.length === 3 || back[3] > 0.9) break;
      under = under.parentElement;
    }
    const [a, b] = [light(rgb(style.color).slice(0, 3)), light(back.slice(0, 3))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push(`${element.textContent?.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return found;
}

test("every text is legible, in light and in dark", async () => {
  const room = await makeRoom();
  await room.crowd("clap", 2);
  await until(async () => (await room.totals()).clap === 2, "begun");
  for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
    for (const path of ["/", "/new", room.path, room.hostPath, `${room.path}/host`, `${room.path}/stage?background=night`]) {
      const page = await open(path, { colorScheme, viewport: SCREEN });
      await settle(300);
      assert.deepEqual(await page.evaluate(faint), [], `${path} in ${colorScheme}`);
    }
  }
});
