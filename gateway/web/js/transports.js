// The two ways to a gateway, with one face: a WebSocket, and server-sent events with POST where those are blocked.

import { age, now } from "./age.js";
import { eventReader } from "./events.js";

/**
 * @typedef {import("./types.js").Tap} Tap
 * @typedef {import("./types.js").Moment} Moment
 * @typedef {import("./types.js").Listener} Listener
 */

/** @param {string} text */
function parse(text) {
  try {
    return /** @type {import("./types.js").ServerFrame} */ (JSON.parse(text));
  } catch {
    return {};
  }
}

/** @type {import("./types.js").Open} */
export function openSocket(code, join, listener) {
  const { protocol, host } = location;
  const scheme = protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(`${scheme}//${host}/v1/rooms/${code}/socket`, "uproar.v1");
  let opened = false;
  socket.onopen = () => {
    opened = true;
    socket.send(JSON.stringify({ join }));
  };
  socket.onmessage = ({ data }) => listener.frame(parse(data));
  socket.onclose = (event) => listener.closed({ code: event.code, opened });
  return {
    send(frame) {
      if (socket.readyState === 1) socket.send(JSON.stringify(frame));
    },
    close() {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close(1000);
    },
  };
}

/** HTTP's answers in the words of close codes, so that one table decides what comes after.
 * @param {number} status
 */
const closeCode = (status) =>
  status === 404 ? 4404
  : status === 429 || status === 503 ? 1013
  : status >= 400 && status < 500 ? 1008
  : 1006;

/** Whether taps were not taken because the time that came with them was too old.
 * @param {Response} answer
 */
async function isStale(answer) {
  if (answer.status !== 503) return false;
  const problem = await answer.json().catch(() => null);
  return problem?.type === "urn:uproar:problem:stale";
}

/** @type {import("./types.js").Open} */
export function openStream(code, join, listener) {
  const { client, page, role, token } = join;
  const abort = new AbortController();
  const base = `/v1/rooms/${code}`;
  /** @type {Record<string, string>} */
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  /** @type {{ tap: Tap, since: Moment }[]} */
  let outgoing = [];
  /** The last time that the stream told, which each POST sends back: a POST that something on the way holds back is then
   * known to be old. Nothing is posted without it.
   * @type {number | undefined} */
  let time;
  let posting = false;
  let done = false;

  /** @param {number} code @param {boolean} opened */
  function end(code, opened) {
    if (done) return;
    done = true;
    abort.abort();
    listener.closed({ code, opened });
  }

  async function listen() {
    const query = new URLSearchParams({ client, page, role });
    const answer = await fetch(`${base}/events?${query}`, { headers, signal: abort.signal, cache: "no-store" });
    if (!answer.ok || !answer.body) return end(closeCode(answer.status), false);
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    const read = eventReader((data) => {
      const frame = parse(data);
      listener.frame(frame);
      if (frame.time === undefined) return;
      time = frame.time;
      deliver();
    });
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return end(1006, true);
      // Also a comment, which something on the way may send into silence, shows that the line lives.
      listener.frame({});
      read(decoder.decode(value, { stream: true }));
    }
  }

  // One request at a time: taps stay in order, and those made meanwhile travel together in the next.
  async function post() {
    if (posting) return;
    posting = true;
    while (outgoing.length && time !== undefined && !done) {
      const sent = outgoing;
      outgoing = [];
      // What waited here has grown older.
      const at = now();
      const taps = sent.map(({ tap, since }) => ({ ...tap, age_ms: (tap.age_ms ?? 0) + age(since, at) }));
      const told = time;
      const answer = await fetch(`${base}/taps`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ client, page, time, taps }),
        signal: abort.signal,
      });
      if (await isStale(answer)) {
        // None was taken. Unless the stream told a newer time meanwhile, they wait for the next.
        outgoing = [...sent, ...outgoing];
        if (time === told) time = undefined;
        continue;
      }
      if (!answer.ok) return end(closeCode(answer.status), true);
      const { results } = await answer.json();
      for (const result of results) listener.frame(result);
    }
    posting = false;
  }

  // No answer means what a broken socket means: the taps are sent again after the next join.
  const deliver = () => void post().catch(() => end(1006, true));
  listen().catch(() => end(1006, false));
  return {
    send(frame) {
      if (!("tap" in frame)) return;
      outgoing.push({ tap: frame.tap, since: now() });
      deliver();
    },
    close() {
      done = true;
      abort.abort();
    },
  };
}

/** The proxy that does not pass WebSockets on, as the gateway sees it; the whole diagnosis is for whoever runs it.
 * @param {string} code
 */
async function brokenHop(code) {
  try {
    const { detail } = await (await fetch(`/v1/rooms/${code}/socket`)).json();
    console.warn(detail);
    return /the proxy at ([^\s,;]+)/.exec(detail)?.[1] ?? "";
  } catch {
    return "";
  }
}

/** Whether plain HTTP gets through where a WebSocket did not, and past which hop: `Server` or `Via` of the answer.
 * @param {string} code
 * @returns {Promise<{ reached: boolean, missing: boolean, hop: string }>}
 */
export async function probe(code) {
  try {
    const answer = await fetch(`/v1/rooms/${code}`, { cache: "no-store" });
    const server = answer.headers.get("via") ?? answer.headers.get("server") ?? "";
    const hop = (/uproar/i.test(server) ? "" : server) || (await brokenHop(code));
    // A captive portal answers everything with a page of its own.
    const ours = /json/.test(answer.headers.get("content-type") ?? "");
    return { reached: answer.ok && ours, missing: answer.status === 404 && ours, hop };
  } catch {
    return { reached: false, missing: false, hop: "" };
  }
}
