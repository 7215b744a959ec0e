// The palette editor: up to twelve reactions, each an emoji and what a screen reader says.

import { hex } from "./ids.js";
import { make, text } from "./page.js";

const ENTRIES_MAX = 12;

/**
 * @typedef {import("./types.js").Reaction} Reaction
 * @typedef {{ row: HTMLElement, emoji: HTMLInputElement, label: HTMLInputElement, was: Reaction | null }} Row
 */

/** A key from a label: `a-z0-9_-`, at most 24, unlike those there are.
 * @param {string} label
 * @param {Set<string>} taken
 */
export function keyFor(label, taken) {
  const plain = label.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase();
  const base = plain.replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 20) || `r${hex(3)}`;
  for (let n = 1; ; n += 1) {
    const key = n === 1 ? base : `${base}-${n}`;
    if (!taken.has(key)) return key;
  }
}

/** Emoji that suit a talk, with their names in the visitor's language. */
export const suggestions = () =>
  text("suggestions").split(", ").map((one) => /** @type {[string, string]} */ (one.split(/ (.*)/, 2)));

/**
 * @param {HTMLElement} place
 * @param {() => void} changed
 */
export function editor(place, changed) {
  /** @type {Row[]} */
  let rows = [];
  const list = make("ol", { class: "rows" });
  const add = make("button", { type: "button", class: "button" }, text("add"));
  const chips = make("div", { class: "chips", role: "group", "aria-label": text("suggestions_name") });
  place.replaceChildren(list, chips, add);

  for (const [emoji, label] of suggestions()) {
    const chip = make("button", { type: "button", class: "chip emoji", "aria-label": text("add_this", { label }) }, emoji);
    chip.title = label;
    chip.addEventListener("click", () => {
      append({ key: "", emoji, label });
      update();
    });
    chips.append(chip);
  }
  add.addEventListener("click", () => {
    append({ key: "", emoji: "", label: "" }).emoji.focus();
    update();
  });

  /** @param {Reaction} entry */
  function append(entry) {
    const emoji = make("input", { class: "emoji", value: entry.emoji, "aria-label": text("emoji"), autocomplete: "off" });
    const label = make("input", { value: entry.label, "aria-label": text("label"), maxlength: "40", dir: "auto", autocomplete: "off" });
    const up = make("button", { type: "button", class: "small", "aria-label": text("up") }, "↑");
    const down = make("button", { type: "button", class: "small", "aria-label": text("down") }, "↓");
    const remove = make("button", { type: "button", class: "small", "aria-label": text("remove") }, "×");
    const row = make("li", {}, emoji, label, up, down, remove);
    const one = { row, emoji, label, was: entry.key ? entry : null };
    emoji.addEventListener("input", update);
    label.addEventListener("input", update);
    up.addEventListener("click", () => move(one, -1, up));
    down.addEventListener("click", () => move(one, 1, down));
    remove.addEventListener("click", () => {
      const index = rows.indexOf(one);
      rows.splice(index, 1);
      row.remove();
      update();
      (rows[Math.min(index, rows.length - 1)]?.emoji ?? add).focus();
    });
    rows.push(one);
    list.append(row);
    return one;
  }

  /** @param {Row} one @param {number} by @param {HTMLElement} button */
  function move(one, by, button) {
    const index = rows.indexOf(one);
    const to = index + by;
    if (to < 0 || to >= rows.length) return;
    rows.splice(index, 1);
    rows.splice(to, 0, one);
    list.replaceChildren(...rows.map(({ row }) => row));
    button.focus();
    update();
  }

  function update() {
    const full = rows.length >= ENTRIES_MAX;
    add.disabled = full;
    for (const chip of chips.children) {
      const there = rows.some(({ emoji }) => emoji.value === chip.textContent);
      /** @type {HTMLButtonElement} */ (chip).disabled = full || there;
    }
    for (const { emoji } of rows) emoji.removeAttribute("aria-invalid");
    changed();
  }

  return {
    /** @param {Reaction[]} entries */
    set(entries) {
      rows = [];
      list.replaceChildren();
      for (const entry of entries) append(entry);
      update();
    },
    /** An entry keeps its key, and so its total, for as long as it keeps its emoji.
     * @returns {Reaction[]}
     */
    value() {
      const kept = (/** @type {Row} */ { was, emoji }) => was && was.emoji === emoji.value.trim();
      const taken = new Set(rows.flatMap((row) => (row.was ? [row.was.key] : [])));
      return rows.map((row) => {
        const label = row.label.value.trim();
        const key = kept(row) && row.was ? row.was.key : keyFor(label, taken);
        taken.add(key);
        return { key, emoji: row.emoji.value.trim(), label };
      });
    },
    /** Marks the entries that the server did not take.
     * @param {{ pointer: string, detail: string }[]} errors
     */
    mark(errors) {
      let first = true;
      for (const { pointer } of errors) {
        const row = rows[Number(/^\/palette\/(\d+)/.exec(pointer)?.[1] ?? -1)];
        if (!row) continue;
        row.emoji.setAttribute("aria-invalid", "true");
        if (first) row.emoji.focus();
        first = false;
      }
    },
  };
}

/** Fills a select with cooldowns that make sense, and the one that is set.
 * @param {HTMLSelectElement} select
 * @param {number} current
 * @param {string} lang
 */
export function cooldowns(select, current, lang) {
  const seconds = new Intl.NumberFormat(lang, { style: "unit", unit: "second", unitDisplay: "long", maximumFractionDigits: 2 });
  const choices = new Set([500, 1000, 2000, 3000, 5000, 10_000, 20_000, 30_000, 60_000, current]);
  const options = [...choices].sort((a, b) => a - b).map((ms) => {
    const option = make("option", { value: String(ms) }, seconds.format(ms / 1000));
    option.selected = ms === current;
    return option;
  });
  select.replaceChildren(...options);
}
