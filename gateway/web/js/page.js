// What every page has: the data that the server wrote into it, its texts, its numbers' form, its elements.

/** @type {import("./types.js").Data} */
export const data = JSON.parse(document.getElementById("data")?.textContent ?? "{}");

/** A text in the visitor's language.
 * @param {string} key
 * @param {Record<string, string | number>} [values] for `{name}`
 */
export const text = (key, values = {}) =>
  (data.texts[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));

const exact = new Intl.NumberFormat(data.lang);
const short = new Intl.NumberFormat(data.lang, { notation: "compact", maximumFractionDigits: 1 });

/** @param {number} number */
export const amount = (number) => (number < 100_000 ? exact : short).format(number);

/**
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @returns {T}
 */
export const get = (id) => /** @type {T} */ (document.getElementById(id));

/** Makes an element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string>} [attributes]
 * @param {(Node | string)[]} children
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Asked each time: a person may change it while the page is open. */
const motion = matchMedia("(prefers-reduced-motion: reduce)");
export const calm = () => motion.matches;

/** Where phones find this system, without `http://`, as people type it. */
export const site = (data.public_url ?? location.origin).replace(/^\w+:\/\//, "");
