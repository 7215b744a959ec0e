// Makes a room, and then hands out its links.

import { call } from "./api.js";
import { cooldowns, editor, suggestions } from "./editor.js";
import { data, get, text } from "./page.js";
import { share } from "./share.js";

/** @type {(id: string) => HTMLInputElement} */
const field = (id) => get(id);
const say = (/** @type {string} */ words) => {
  get("notice").textContent = words;
};
const palette = editor(get("palette"), () => say(""));
// The standard palette, as the visitor calls it.
const names = new Map(suggestions());
palette.set((data.palette ?? []).map((entry) => ({ ...entry, label: names.get(entry.emoji) ?? entry.label })));
const cooldown = /** @type {HTMLSelectElement} */ (get("cooldown"));
cooldowns(cooldown, 3000, data.lang);

get("make").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = /** @type {HTMLButtonElement} */ (get("create"));
  button.disabled = true;
  say("");
  const code = field("code").value.trim();
  const answer = await call("POST", "/v1/rooms", field("key").value, {
    title: field("title").value.trim(),
    palette: palette.value(),
    cooldown_ms: Number(cooldown.value),
    ...(code && { code }),
  });
  button.disabled = false;
  if (!answer.ok) {
    say([answer.message, ...answer.errors.map(({ detail }) => detail)].join(" "));
    palette.mark(answer.errors);
    return;
  }
  get("form").hidden = true;
  get("done").hidden = false;
  get("made").textContent = text("made", { title: field("title").value.trim() });
  get("made-code").textContent = answer.body.code;
  share(answer.body.code, answer.body.links);
  get("made").focus();
});
