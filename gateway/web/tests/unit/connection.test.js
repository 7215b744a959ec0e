import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { Connection } from "../../js/connection.js";

/**
 * @typedef {import("../../js/types.js").Listener} Listener
 * @typedef {{ way: string, join: import("../../js/types.js").Join, listener: Listener, sent: object[], closed: boolean }} Line
 */

const ROOM = { title: "T", palette: [], cooldown_ms: 1000, state: /** @type {const} */ ("open"), totals: {} };

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"] }));
afterEach(() => mock.timers.reset());

function stage({ reached = true, missing = false } = {}) {
  /** @type {Line[]} */
  const lines = [];
  /** @type {string[]} */
  const said = [];
  const open = (/** @type {string} */ way) =>
    /** @type {import("../../js/types.js").Open} */ (
      (_code, join, listener) => {
        const line = { way, join, listener, sent: /** @type {object[]} */ ([]), closed: false };
        lines.push(line);
        return {
          send: (frame) => void line.sent.push(frame),
          close: () => void (line.closed = true),
        };
      }
    );
  const connection = new Connection(
    { code: "PARTY7", role: "phone", client: "c" },
    { frame() {}, status: (status) => void said.push(status.name) },
    {
      openSocket: open("socket"),
      openStream: open("stream"),
      probe: async () => ({ reached, missing, hop: "nginx" }),
      random: () => 0.5,
    },
  );
  return {
    connection,
    lines,
    said,
    last: () => /** @type {Line} */ (lines.at(-1)),
    /** Lets promises that are due settle. */
    settle: async () => {
      for (let n = 0; n < 5; n += 1) await Promise.resolve();
    },
  };
}

test("joins with the first room frame, and not before", () => {
  const { connection, last, said } = stage();
  connection.open();
  assert.equal(connection.send({ tap: { key: "clap", seq: 1 } }), false);
  last().listener.frame({ room: ROOM });
  assert.deepEqual(said, ["connecting", "joined"]);
  assert.equal(connection.send({ tap: { key: "clap", seq: 1 } }), true);
  assert.deepEqual(last().sent, [{ tap: { key: "clap", seq: 1 } }]);
});

test("a broken line comes back after a jittered wait that doubles, with the same page id", () => {
  const { connection, lines, last } = stage();
  connection.open();
  last().listener.frame({ room: ROOM });
  for (const wait of [250, 500, 1000]) {
    const before = lines.length;
    last().listener.closed({ code: 1006, opened: true });
    mock.timers.tick(wait - 1);
    assert.equal(lines.length, before);
    mock.timers.tick(1);
    assert.equal(lines.length, before + 1);
  }
  assert.equal(new Set(lines.map(({ join }) => join.page)).size, 1);
});

test("after ten steady seconds the next wait is small again", () => {
  const { connection, lines, last } = stage();
  connection.open();
  for (let n = 0; n < 4; n += 1) {
    last().listener.closed({ code: 1006, opened: true });
    mock.timers.tick(30_000);
  }
  last().listener.frame({ room: ROOM });
  mock.timers.tick(10_000);
  const before = lines.length;
  last().listener.closed({ code: 1006, opened: true });
  mock.timers.tick(250);
  assert.equal(lines.length, before + 1);
});

test("a drain is obeyed to the millisecond, even when someone looks at the page meanwhile", () => {
  const { connection, lines, last } = stage();
  connection.open();
  last().listener.frame({ room: ROOM });
  last().listener.frame({ bye: { why: "drain", retry_ms: 3417 } });
  last().listener.closed({ code: 1012, opened: true });
  connection.wake();
  mock.timers.tick(3416);
  assert.equal(lines.length, 1);
  mock.timers.tick(1);
  assert.equal(lines.length, 2);
});

test("an unknown room and a broken rule end it", () => {
  for (const [code, why] of /** @type {const} */ ([[4404, "missing"], [1008, "refused"], [1007, "broken"]])) {
    const { connection, lines, last } = stage();
    connection.open();
    last().listener.closed({ code, opened: true });
    mock.timers.tick(100_000);
    assert.equal(lines.length, 1);
    assert.deepEqual(connection.status, { name: "ended", why });
  }
});

test("a sleeping phone finds a dead line within two seconds, and keeps a live one", () => {
  const { connection, lines, last } = stage();
  connection.open();
  last().listener.frame({ room: ROOM });
  connection.wake();
  assert.deepEqual(last().sent, [{ ping: 1 }]);
  last().listener.frame({ pong: 1 });
  mock.timers.tick(5000);
  assert.equal(lines.length, 1);
  connection.wake();
  mock.timers.tick(2000);
  assert.equal(lines[0].closed, true);
  mock.timers.tick(250);
  assert.equal(lines.length, 2);
});

test("someone who looks at a waiting page does not wait", () => {
  const { connection, lines, last } = stage();
  connection.open();
  connection.attempt = 6;
  last().listener.closed({ code: 1006, opened: true });
  connection.wake();
  assert.equal(lines.length, 2);
});

test("a network that comes back brings the hall back spread over a moment", () => {
  const { connection, lines, last } = stage();
  connection.open();
  connection.attempt = 6;
  last().listener.closed({ code: 1006, opened: true });
  connection.online();
  assert.equal(lines.length, 1);
  mock.timers.tick(500);
  assert.equal(lines.length, 2);
});

test("two closes before the line was open, and plain HTTP works: the fallback takes over and names the hop", async () => {
  const { connection, lines, last, settle } = stage();
  connection.open();
  last().listener.closed({ code: 1006, opened: false });
  mock.timers.tick(250);
  assert.deepEqual(lines.map(({ way }) => way), ["socket", "socket"]);
  last().listener.closed({ code: 1006, opened: false });
  await settle();
  assert.deepEqual(lines.map(({ way }) => way), ["socket", "socket", "stream"]);
  last().listener.frame({ room: ROOM });
  assert.deepEqual(connection.status, { name: "joined", way: "stream", hop: "nginx" });
});

test("without any network the page goes on trying WebSockets", async () => {
  const { connection, lines, last, settle } = stage({ reached: false });
  connection.open();
  for (let n = 0; n < 5; n += 1) {
    last().listener.closed({ code: 1006, opened: false });
    await settle();
    mock.timers.tick(30_000);
  }
  assert.deepEqual(new Set(lines.map(({ way }) => way)), new Set(["socket"]));
  assert.equal(lines.length, 6);
});

test("a room that is gone is found out where WebSockets are blocked, too", async () => {
  const { connection, last, settle } = stage({ reached: false, missing: true });
  connection.open();
  last().listener.closed({ code: 1006, opened: false });
  mock.timers.tick(250);
  last().listener.closed({ code: 1006, opened: false });
  await settle();
  assert.deepEqual(connection.status, { name: "ended", why: "missing" });
});

test("a join that is never answered counts as a broken line", () => {
  const { connection, lines } = stage();
  connection.open();
  mock.timers.tick(10_000);
  assert.equal(lines[0].closed, true);
  mock.timers.tick(250);
  assert.equal(lines.length, 2);
});

test("what a line says after it was given up is nobody's", () => {
  const { connection, lines, said } = stage();
  connection.open();
  const [old] = lines;
  connection.sleep();
  connection.wake();
  old.listener.frame({ room: ROOM });
  old.listener.closed({ code: 4404, opened: true });
  assert.deepEqual(said, ["connecting", "waiting", "connecting"]);
});

test("a page that was put away closes its line, and comes back at once", () => {
  const { connection, lines, last } = stage();
  connection.open();
  last().listener.frame({ room: ROOM });
  connection.sleep();
  assert.equal(lines[0].closed, true);
  mock.timers.tick(60_000);
  assert.equal(lines.length, 1);
  connection.wake();
  assert.equal(lines.length, 2);
});

test("a silent line is asked whether it lives", () => {
  const { connection, last } = stage();
  connection.open();
  last().listener.frame({ room: ROOM });
  mock.timers.tick(30_000);
  assert.deepEqual(last().sent, [{ ping: 1 }]);
});

test("a new page id after the server lost track", () => {
  const { connection, lines } = stage();
  connection.open();
  connection.renew();
  assert.notEqual(lines[0].join.page, lines[1].join.page);
  assert.match(lines[1].join.page, /^[0-9a-f]{8}$/);
});
