// The host's page: how the room is, and what can be changed in it.

import { call } from "./api.js";
import { chart } from "./chart.js";
import { follow, Connection } from "./connection.js";
import { cooldowns, editor } from "./editor.js";
import { clientId } from "./ids.js";
import { amount, data, get, make, text } from "./page.js";
import { share } from "./share.js";
import { merge } from "./taps.js";

const { code } = data;
const stored = `uproar.host.${code}`;

/** The link carries the token in its fragment, which no server sees; it moves to this tab's storage and leaves the
 * address, so that neither the history nor a shared screen shows it.
 */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(stored, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(stored) ?? "";
}

let token = takeToken();
let room = data.room;
let dirty = false;
/** @type {import("./types.js").Totals} */
const totals = Object.create(null);
const graph = chart();
const title = /** @type {HTMLInputElement} */ (get("title-field"));
const cooldown = /** @type {HTMLSelectElement} */ (get("cooldown"));
const palette = editor(get("palette"), () => touch());

// ---- what can be changed

function touch(now = true) {
  dirty = now;
  for (const id of ["save", "discard"]) /** @type {HTMLButtonElement} */ (get(id)).disabled = !now;
  get("notice").textContent = "";
}

function fill() {
  title.value = room.title;
  cooldowns(cooldown, room.cooldown_ms, data.lang);
  palette.set(room.palette);
  touch(false);
}

/** @param {object} change */
async function patch(change) {
  const answer = await call("PATCH", `/v1/rooms/${code}`, token, change);
  if (!answer.ok) {
    get("notice").textContent = [answer.message, ...answer.errors.map(({ detail }) => detail)].join(" ");
    palette.mark(answer.errors);
  }
  return answer.ok;
}

get("settings").addEventListener("submit", async (event) => {
  event.preventDefault();
  const ok = await patch({ title: title.value.trim(), cooldown_ms: Number(cooldown.value), palette: palette.value() });
  if (!ok) return;
  touch(false);
  get("notice").textContent = text("saved");
});
get("discard").addEventListener("click", fill);
title.addEventListener("input", () => touch());
cooldown.addEventListener("change", () => touch());

const states = /** @type {HTMLElement[]} */ ([...get("states").children]);
/** @type {ReturnType<typeof setTimeout> | undefined} */
let unsure;
for (const button of states) {
  button.addEventListener("click", () => {
    const state = button.dataset.state ?? "";
    if (state === room.state) return;
    // Closing is seldom meant: it takes a second press.
    if (state === "closed" && !unsure) {
      button.textContent = text("close_sure");
      unsure = setTimeout(showState, 4000);
      return;
    }
    showState();
    patch({ state });
  });
}

function showState() {
  clearTimeout(unsure);
  unsure = undefined;
  document.body.dataset.state = room.state;
  for (const button of states) {
    const state = button.dataset.state ?? "";
    button.setAttribute("aria-pressed", String(state === room.state));
    button.textContent = text(`state_${state}`);
  }
}

// ---- how it is

function showTotals() {
  const most = Math.max(1, ...room.palette.map(({ key }) => totals[key] ?? 0));
  const list = get("totals");
  room.palette.forEach(({ key, emoji, label }, index) => {
    let row = /** @type {HTMLElement} */ (list.children[index]);
    if (row?.dataset.key !== key || row.dataset.emoji !== emoji || row.dataset.label !== label) {
      const fresh = make(
        "li",
        { "data-key": key, "data-emoji": emoji, "data-label": label },
        make("span", { class: "emoji", "aria-hidden": "true" }, emoji),
        make("span", { class: "name", dir: "auto" }, label),
        make("span", { class: "bar", "aria-hidden": "true" }, make("i")),
        make("span", { class: "number" }),
      );
      if (row) row.replaceWith(fresh);
      else list.append(fresh);
      row = fresh;
    }
    const total = totals[key] ?? 0;
    /** @type {HTMLElement} */ (row.querySelector("i")).style.transform = `scaleX(${total / most})`;
    /** @type {HTMLElement} */ (row.querySelector(".number")).textContent = amount(total);
  });
  while (list.children.length > room.palette.length) list.lastElementChild?.remove();
}

/** @param {import("./types.js").ServerFrame} frame */
function take(frame) {
  if (frame.room) {
    room = frame.room;
    get("title").textContent = room.title;
    document.title = `${room.title} · Uproar`;
    showState();
    merge(totals, frame.room.totals);
    showTotals();
    if (!dirty) fill();
  }
  if (frame.tick) {
    merge(totals, frame.tick.totals);
    showTotals();
  }
  if (frame.audience) {
    get("people").textContent = amount(frame.audience.people);
    get("rate").textContent = amount(frame.audience.taps_per_second);
    graph.add(frame.audience.taps_per_second);
  }
}

/** @type {Connection} */
let connection;
function begin() {
  get("ask").hidden = true;
  get("console").hidden = false;
  const link = `${data.public_url}/${code}`;
  share(code, { audience: link, stage: `${link}/stage`, host: `${link}/host#token=${token}` });
  connection = new Connection({ code, role: "host", client: clientId(), token }, { frame: take, status: showLine });
  follow(connection);
}

/** @param {import("./types.js").Status} status */
function showLine(status) {
  const name = status.name === "ended" ? `ended_${status.why}` : status.name;
  document.body.dataset.line = status.name;
  get("status").textContent = text(name);
  // The token is expired or foreign: it is of no use to a reload either.
  if (status.name === "ended" && status.why === "refused") {
    sessionStorage.removeItem(stored);
    get("ask").hidden = false;
    get("console").hidden = true;
  }
}

get("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const key = /** @type {HTMLInputElement} */ (get("key"));
  const answer = await call("POST", `/v1/rooms/${code}/host-tokens`, key.value);
  get("ask-notice").textContent = answer.message;
  if (!answer.ok) return;
  token = answer.body.host_token;
  sessionStorage.setItem(stored, token);
  key.value = "";
  begin();
});

fill();
showState();
showTotals();
if (token) begin();
