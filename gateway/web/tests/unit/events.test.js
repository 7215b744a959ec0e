import assert from "node:assert/strict";
import { test } from "node:test";
import { eventReader } from "../../js/events.js";

/** @param {string[]} pieces */
function read(pieces) {
  /** @type {string[]} */
  const heard = [];
  const take = eventReader((data) => heard.push(data));
  for (const piece of pieces) take(piece);
  return heard;
}

const stream = ': hello\n\ndata: {"room":1}\n\nevent: x\nid: 7\ndata:{"tick":2}\n\ndata: a\ndata: b\n\n';
const expected = ['{"room":1}', '{"tick":2}', "a\nb"];

test("events are read whole, comments and other fields are passed over", () => {
  assert.deepEqual(read([stream]), expected);
});

test("wherever the network cuts, and whatever ends the lines", () => {
  for (const ending of ["\n", "\r\n", "\r"]) {
    const text = stream.replaceAll("\n", ending) + ending;
    for (let cut = 0; cut <= text.length; cut += 1) {
      assert.deepEqual(read([text.slice(0, cut), text.slice(cut)]), expected, `${JSON.stringify(ending)} cut at ${cut}`);
    }
    assert.deepEqual(read([...text]), expected);
  }
});

test("an event without its end is not heard", () => {
  assert.deepEqual(read(["data: half"]), []);
});
