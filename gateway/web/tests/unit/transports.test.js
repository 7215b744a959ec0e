import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { openStream, probe } from "../../js/transports.js";

const real = globalThis.fetch;
afterEach(() => {
  globalThis.fetch = real;
});

const join = { client: "a".repeat(32), page: "b".repeat(8), role: "phone", token: null };
const settle = () => new Promise((resolve) => setTimeout(resolve, 5));

/** @param {(path: string, options: RequestInit) => Response | Promise<Response>} answer */
function serve(answer) {
  globalThis.fetch = /** @type {typeof fetch} */ (async (path, options) => answer(String(path), options ?? {}));
}

function listener() {
  const heard = { frames: /** @type {object[]} */ ([]), closed: /** @type {object[]} */ ([]) };
  return {
    heard,
    // An empty frame only says that the line lives.
    frame: (/** @type {object} */ frame) => void (Object.keys(frame).length && heard.frames.push(frame)),
    closed: (/** @type {object} */ how) => void heard.closed.push(how),
  };
}

/** A stream that is told what to say. */
function told() {
  /** @type {ReadableStreamDefaultController<Uint8Array>} */
  let stream;
  const body = new ReadableStream({ start: (controller) => void (stream = controller) });
  return {
    response: new Response(body),
    tell: (/** @type {string} */ text) => stream.enqueue(new TextEncoder().encode(text)),
  };
}

/** A stream that stays open. */
const events = (text = "") =>
  new Response(
    new ReadableStream({
      start(controller) {
        if (text) controller.enqueue(new TextEncoder().encode(text));
      },
    }),
  );

test("the stream's frames are heard, and a token travels in a header", async () => {
  /** @type {RequestInit[]} */
  const asked = [];
  serve((path, options) => {
    asked.push(options);
    assert.match(path, /^\/v1\/rooms\/PARTY7\/events\?client=a{32}&page=b{8}&role=host$/);
    return events('data: {"room":{"title":"T"}}\n\n');
  });
  const on = listener();
  openStream("PARTY7", { ...join, role: "host", token: "secret" }, on);
  await settle();
  assert.deepEqual(on.heard.frames, [{ room: { title: "T" } }]);
  assert.deepEqual(asked[0].headers, { authorization: "Bearer secret" });
});

test("taps are posted one request at a time, in order, each answered as a frame", async () => {
  /** @type {number[][]} */
  const requests = [];
  let flying = 0;
  serve(async (path, options) => {
    if (path.includes("/events")) return events('data: {"time":17}\n\n');
    assert.equal((flying += 1), 1);
    const { taps, time } = JSON.parse(String(options.body));
    assert.equal(time, 17);
    requests.push(taps.map((/** @type {any} */ tap) => tap.seq));
    await new Promise((resolve) => setTimeout(resolve, 3));
    flying -= 1;
    return Response.json({ results: taps.map((/** @type {any} */ tap) => ({ ack: tap.seq })) });
  });
  const on = listener();
  const transport = openStream("PARTY7", join, on);
  await settle();
  for (const seq of [1, 2, 3]) transport.send({ tap: { key: "clap", seq } });
  transport.send({ ping: 1 });
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.deepEqual(requests, [[1], [2, 3]]);
  assert.deepEqual(on.heard.frames, [{ time: 17 }, { ack: 1 }, { ack: 2 }, { ack: 3 }]);
});

test("stale taps wait for the next time and are sent again, older, before those made meanwhile", async () => {
  /** @type {{ time: number, taps: { seq: number, age_ms: number }[] }[]} */
  const posts = [];
  const stream = told();
  serve((path, options) => {
    if (path.includes("/events")) return stream.response;
    const post = JSON.parse(String(options.body));
    posts.push(post);
    if (post.time === 1) return Response.json({ type: "urn:uproar:problem:stale" }, { status: 503 });
    return Response.json({ results: post.taps.map((/** @type {any} */ tap) => ({ ack: tap.seq })) });
  });
  const on = listener();
  const transport = openStream("PARTY7", join, on);
  transport.send({ tap: { key: "clap", seq: 1, age_ms: 500 } });
  await settle();
  assert.equal(posts.length, 0, "nothing is sent before the first time");
  stream.tell('data: {"time":1}\n\n');
  await settle();
  transport.send({ tap: { key: "clap", seq: 2 } });
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(posts.length, 1, "nothing is sent again before the next time");
  stream.tell('data: {"time":2}\n\n');
  await settle();
  assert.deepEqual(posts.map(({ time, taps }) => [time, taps.map(({ seq }) => seq)]), [[1, [1]], [2, [1, 2]]]);
  const [first, again] = posts.map(({ taps }) => taps[0].age_ms);
  assert.ok(first >= 500 && again >= first + 25, `${first} ${again}`);
  assert.deepEqual(on.heard.frames, [{ time: 1 }, { time: 2 }, { ack: 1 }, { ack: 2 }]);
  assert.deepEqual(on.heard.closed, []);
});

test("a 503 of another kind closes the line", async () => {
  serve((path) =>
    path.includes("/events") ? events('data: {"time":1}\n\n') : Response.json({ type: "urn:uproar:problem:unavailable" }, { status: 503 }),
  );
  const on = listener();
  openStream("PARTY7", join, on).send({ tap: { key: "clap", seq: 1 } });
  await settle();
  assert.deepEqual(on.heard.closed, [{ code: 1013, opened: true }]);
});

test("a post that fails closes the line once, so that taps are sent again after the next join", async () => {
  serve((path) => (path.includes("/events") ? events('data: {"time":1}\n\n') : Promise.reject(new Error("no network"))));
  const on = listener();
  openStream("PARTY7", join, on).send({ tap: { key: "clap", seq: 1 } });
  await settle();
  assert.deepEqual(on.heard.closed, [{ code: 1006, opened: true }]);
});

test("HTTP's answers are told in close codes", async () => {
  for (const [status, code] of [[404, 4404], [429, 1013], [503, 1013], [401, 1008], [403, 1008], [500, 1006], [502, 1006]]) {
    serve(() => new Response("", { status }));
    const on = listener();
    openStream("PARTY7", join, on);
    await settle();
    assert.deepEqual(on.heard.closed, [{ code, opened: false }], String(status));
  }
});

test("a comment shows that the line lives", async () => {
  serve(() => events(":\n\n"));
  let lives = 0;
  openStream("PARTY7", join, { frame: () => (lives += 1), closed() {} });
  await settle();
  assert.equal(lives, 1);
});

test("a closed transport says nothing more", async () => {
  serve(() => events('data: {"room":{}}\n\n'));
  const on = listener();
  openStream("PARTY7", join, on).close();
  await settle();
  assert.deepEqual(on.heard.closed, []);
});

test("the probe tells a working way from a captive portal, and names a proxy", async () => {
  serve(() => new Response("{}", { headers: { "content-type": "application/json", server: "nginx/1.18.0" } }));
  assert.deepEqual(await probe("X"), { reached: true, missing: false, hop: "nginx/1.18.0" });
  const plain = (/** @type {string} */ detail) =>
    serve(() => new Response(JSON.stringify({ detail }), { headers: { "content-type": "application/json" } }));
  const { warn } = console;
  console.warn = () => {};
  plain("this address takes WebSockets only");
  assert.deepEqual(await probe("X"), { reached: true, missing: false, hop: "" });
  plain("if one was sent, the proxy at 10.1.2.3, the last hop before this gateway, does not pass WebSockets on");
  assert.deepEqual(await probe("X"), { reached: true, missing: false, hop: "10.1.2.3" });
  console.warn = warn;
  serve(() => new Response("<h1>Welcome to the hotel</h1>", { headers: { "content-type": "text/html" } }));
  assert.deepEqual(await probe("X"), { reached: false, missing: false, hop: "" });
  serve(() => new Response("{}", { status: 404, headers: { "content-type": "application/problem+json" } }));
  assert.equal((await probe("X")).missing, true);
  serve(() => Promise.reject(new Error("no network")));
  assert.deepEqual(await probe("X"), { reached: false, missing: false, hop: "" });
});
