// The start page: a code, typed in any way a person types one.

import { data, get, text } from "./page.js";

/** The code as the server writes it: upper case, without spaces and dashes.
 * @param {string} typed
 */
export const canonical = (typed) => typed.toUpperCase().replace(/[\s\-‐-―_.]/g, "");

const field = /** @type {HTMLInputElement} */ (get("code"));
const notice = get("notice");

/** @param {string} words */
function say(words) {
  notice.textContent = words;
  notice.hidden = !words;
  field.setAttribute("aria-invalid", String(!!words));
  if (words) field.focus();
}

get("enter").addEventListener("submit", async (event) => {
  event.preventDefault();
  const code = canonical(field.value);
  if (!/^[A-Z0-9]{4,12}$/.test(code)) return say(text("form"));
  const lang = new URLSearchParams(location.search).get("lang");
  const query = lang ? `?lang=${encodeURIComponent(lang)}` : "";
  try {
    const answer = await fetch(`/v1/rooms/${code}`, { cache: "no-store" });
    if (answer.status === 404) return say(text("missing", { code }));
    if (answer.status === 429) return say(text("slowly"));
  } catch {
    return say(text("offline"));
  }
  location.assign(`/${code}${query}`);
});
field.addEventListener("input", () => say(""));
document.documentElement.lang = data.lang;
