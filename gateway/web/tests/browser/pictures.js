// Pictures of every page, to be looked at, and the one in the README.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, test } from "node:test";
import { born, browser, join, joined, makeRoom, open, output, PHONE, SCREEN, settle, slidesUrl, tap, tidy, until } from "./support.js";

afterEach(tidy);

/** Taps as a hall does, until told to stop. @param {Awaited<ReturnType<typeof makeRoom>>} room */
function hall(room) {
  let going = true;
  const done = (async () => {
    for (let n = 0; going; n += 1) {
      await Promise.all([room.crowd("clap", 3), room.crowd(["love", "laugh", "party", "mind", "ask"][n % 5], 3)]);
      await settle(150);
    }
  })();
  return async () => {
    going = false;
    await done;
  };
}

test("a picture of each page, small and large, light and dark", async () => {
  const room = await makeRoom({ title: "The long road to a quiet pager", cooldown_ms: 2000 });
  const idle = await makeRoom({ title: "Opening keynote" });
  const stop = hall(room);
  try {
    const pages = {
      start: "/",
      new: "/new",
      audience: room.path,
      host: room.hostPath,
      stage: `${room.path}/stage?background=night`,
      idle: `${idle.path}/stage?background=paper`,
      missing: "/NOSUCH",
    };
    for (const [name, path] of Object.entries(pages)) {
      for (const viewport of [PHONE, SCREEN]) {
        for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
          if (colorScheme === "dark" && ["stage", "idle"].includes(name)) continue;
          const page = await open(path, { viewport, colorScheme });
          if (["audience", "host", "stage"].includes(name)) await joined(page);
          if (name === "audience") await tap(page, "love").catch(() => page.click('.pad[data-key="love"]'));
          if (name === "stage") await until(async () => (await born(page)) > 12, "emoji");
          await settle(name === "host" ? 2500 : 500);
          await page.screenshot({ path: `${output}${name}-${viewport.width}x${viewport.height}-${colorScheme}.png` });
          await page.context().close();
        }
      }
    }
  } finally {
    await stop();
  }
});

test("the README's picture: a phone and a stage", async () => {
  const room = await makeRoom({ title: "What ten years of outages taught us", cooldown_ms: 3000 });
  const stop = hall(room);
  try {
    const stage = await join(`${room.path}/stage?slides=${encodeURIComponent(slidesUrl)}`, { viewport: { width: 1440, height: 810 } });
    const phone = await join(room.path, { viewport: PHONE, colorScheme: "dark" });
    // A reader should see an address like theirs, not the port of a test.
    await stage.$eval(".site", (site) => (site.textContent = "uproar.example"));
    await until(async () => (await born(stage)) > 16, "emoji");
    await tap(phone, "love");
    await settle(500);
    const [slide, hand] = await Promise.all([stage.screenshot(), phone.screenshot()]);
    const url = (/** @type {Buffer} */ png) => `data:image/png;base64,${png.toString("base64")}`;
    const context = await browser.newContext({ viewport: { width: 1120, height: 560 } });
    const page = await context.newPage();
    await page.setContent(`<style>
      body { margin: 0; background: #efe9df; height: 560px; display: flex; align-items: center; justify-content: center; gap: 34px }
      img { display: block; box-shadow: 0 10px 40px rgb(60 40 30 / 28%) }
      .stage { width: 796px; border-radius: 10px } .phone { height: 500px; border-radius: 26px; border: 7px solid #0b0910 }
      </style><img class="stage" src="${url(slide)}"><img class="phone" src="${url(hand)}">`);
    await page.waitForFunction(() => [...document.images].every((image) => image.complete));
    // A copy of it stands in gateway/web/readme.png; renew it when the pages change.
    await page.screenshot({ path: `${output}readme.png` });
    await context.close();
    assert.ok(readFileSync(`${output}readme.png`).length > 20_000);
  } finally {
    await stop();
  }
});
