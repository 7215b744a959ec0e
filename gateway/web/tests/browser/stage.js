// The overlay on the slides.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { PNG } from "pngjs";
import { born, hide, join, joined, makeRoom, open, SCREEN, settle, slidesUrl, tap, tidy, until } from "./support.js";

afterEach(tidy);

const stageOf = (/** @type {{ path: string }} */ room, query = "") => `${room.path}/stage${query}`;
const screen = { viewport: SCREEN };

test("before the first tap it invites; with the first tap it makes room", async () => {
  const room = await makeRoom({ title: "Opening keynote" });
  const stage = await join(stageOf(room), screen);
  assert.ok(await stage.getByText("Opening keynote").isVisible());
  assert.ok(await stage.getByText(room.code).isVisible());
  await room.crowd("clap", 1);
  await stage.waitForSelector("body:not(.idle)", { state: "attached" });
  await until(async () => (await born(stage)) === 1, "one emoji");
  assert.ok(!(await stage.getByText("Opening keynote").isVisible()));
  assert.ok(await stage.getByText(room.code).isVisible());
});

test("opened or reloaded in the middle it knows the totals and replays nothing", async () => {
  const room = await makeRoom();
  await room.crowd("clap", 40);
  await until(async () => (await room.totals()).clap === 40, "forty taps are counted");
  const stage = await join(stageOf(room), screen);
  await settle(1500);
  assert.equal(await born(stage), 0, "opened in the middle");
  assert.ok(!(await stage.$("body.idle")));
  await room.crowd("clap", 1);
  await until(async () => (await born(stage)) === 1, "what is new is shown");
  await stage.reload();
  await joined(stage);
  await settle(1500);
  assert.equal(await born(stage), 0, "reloaded");
});

test("what came while it was hidden stays unseen", async () => {
  const room = await makeRoom();
  const stage = await join(stageOf(room), screen);
  await hide(stage, true);
  await room.crowd("clap", 30);
  await until(async () => (await room.totals()).clap === 30, "thirty taps are counted");
  await settle(1000);
  await hide(stage, false);
  await settle(1000);
  assert.equal(await born(stage), 0);
  await room.crowd("love", 1);
  await until(async () => (await born(stage)) === 1, "it goes on from there");
});

test("a storm shows at most some sixty at a time, and the meter the rest", async () => {
  const room = await makeRoom();
  const stage = await join(stageOf(room), screen);
  for (let n = 0; n < 10; n += 1) await room.crowd(n % 2 ? "clap" : "party", 60);
  await until(async () => (await born(stage)) > 20, "emoji are shown");
  const peak = await stage.$eval("#sky", (sky) => Number(/** @type {HTMLElement} */ (sky).dataset.peak));
  assert.ok(peak > 10 && peak <= 60, String(peak));
  assert.match((await stage.textContent("#rate")) ?? "", /\/s$/);
});

test("it is transparent but for emoji and card", async () => {
  const room = await makeRoom();
  await room.crowd("clap", 1);
  await until(async () => (await room.totals()).clap === 1, "begun");
  const stage = await join(stageOf(room), screen);
  const { data, width } = PNG.sync.read(await stage.screenshot({ omitBackground: true }));
  const alpha = (/** @type {number} */ x, /** @type {number} */ y) => data[(y * width + x) * 4 + 3];
  for (const [x, y] of [[10, 10], [960, 540], [1910, 10], [10, 1070]]) assert.equal(alpha(x, y), 0, `${x},${y}`);
  assert.ok(alpha(1850, 1000) > 200, "the card");
});

test("options: corner, scale, code, meter, idle", async () => {
  const room = await makeRoom();
  await room.crowd("clap", 1);
  await until(async () => (await room.totals()).clap === 1, "begun");
  const box = async (/** @type {string} */ query) => (await join(stageOf(room, query), screen)).locator("#card").boundingBox();
  const [plain, corner, large, none] = [await box(""), await box("?corner=tl"), await box("?scale=1.5"), await box("?code=off")];
  assert.ok(plain && corner && large);
  assert.ok(plain.x > 960 && plain.y > 540 && corner.x < 100 && corner.y < 100);
  assert.ok(Math.abs(large.height / plain.height - 1.5) < 0.05);
  assert.equal(none, null);
  const bare = await join(stageOf(await makeRoom(), "?meter=off&idle=off"), screen);
  assert.ok(!(await bare.$("body.idle")));
  assert.ok(!(await bare.locator("#meter").isVisible()));
});

test("slides lie beneath it where a setting allows their host, and nowhere else", async () => {
  const room = await makeRoom();
  const stage = await join(stageOf(room, `?slides=${encodeURIComponent(slidesUrl)}`), screen);
  const slides = stage.frameLocator("#slides");
  await slides.getByText("What ten years of outages").waitFor();
  await room.crowd("clap", 3);
  await until(async () => (await born(stage)) > 0, "emoji rise over them");
  const foreign = await open(stageOf(room, "?slides=https%3A%2F%2Felsewhere.example%2F"), screen);
  await foreign.getByText("gateway.slides_hosts").waitFor();
  assert.equal(await foreign.$("#slides"), null);
});

test("reduced motion: emoji appear and fade where they are, and phones stay still", async () => {
  const room = await makeRoom();
  const still = { reducedMotion: /** @type {const} */ ("reduce") };
  const [stage, phone] = await Promise.all([join(stageOf(room), { ...screen, ...still }), join(room.path, still)]);
  await phone.evaluate(() => {
    const w = /** @type {any} */ (window);
    w.moved = 0;
    new MutationObserver((changes) => (w.moved += changes.length)).observe(/** @type {Node} */ (document.getElementById("floats")), { childList: true });
  });
  await tap(phone, "clap");
  await room.crowd("love", 40);
  await until(async () => (await born(stage)) > 3, "emoji appear");
  const peak = await stage.$eval("#sky", (sky) => Number(/** @type {HTMLElement} */ (sky).dataset.peak));
  assert.ok(peak <= 12, String(peak));
  // The painted region is the same a moment later: its centre of colour does not wander.
  const centre = async () => {
    const { data, width } = PNG.sync.read(await stage.screenshot({ omitBackground: true, clip: { x: 0, y: 0, width: 1400, height: 1080 } }));
    let [sum, count] = [0, 0];
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 40) (sum += Math.floor(i / 4 / width)), (count += 1);
    return count ? sum / count : null;
  };
  await settle(500);
  const [one, two] = [await centre(), await centre()];
  assert.ok(one && two && Math.abs(one - two) < 12, `${one} ${two}`);
  assert.equal(await phone.evaluate(() => /** @type {any} */ (window).moved), 0);
  await until(async () => (await room.totals()).clap === 1, "tapping works as ever");
});
