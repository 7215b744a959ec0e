// A few emoji that rise from their buttons: one's own at once, those of others sampled, so that the page stays calm
// and a cheap phone cool however loud the room is.

import { calm } from "./page.js";

/** At a time on a phone: enough to feel the room, little enough to read by. */
const ALIVE_MAX = 12;
/** Of others' taps, per tick. */
const SAMPLED_MAX = 2;

/** @param {HTMLElement} layer */
export function floats(layer) {
  /** @param {Element | null | undefined} from @param {string} emoji @param {boolean} own */
  function rise(from, emoji, own) {
    if (!from || calm() || document.hidden || layer.childElementCount >= ALIVE_MAX) return;
    const box = from.getBoundingClientRect();
    const span = document.createElement("span");
    span.textContent = emoji;
    span.style.left = `${box.left + box.width / 2}px`;
    span.style.top = `${box.top + box.height / 2}px`;
    layer.append(span);
    const drift = (Math.random() - 0.5) * 90;
    const height = 130 + Math.random() * 150;
    const size = own ? 1.25 : 0.7 + Math.random() * 0.25;
    const at = (/** @type {number} */ part, /** @type {number} */ scale) =>
      `translate(-50%,-50%) translate(${drift * part}px,${-height * part}px) scale(${scale})`;
    const animation = span.animate(
      [
        { transform: at(0, 0.4), opacity: 0 },
        { transform: at(0.2, size), opacity: own ? 1 : 0.75, offset: 0.18 },
        { transform: at(1, size * 0.9), opacity: 0 },
      ],
      { duration: 1500 + Math.random() * 900, easing: "cubic-bezier(.2,.6,.4,1)" },
    );
    animation.onfinish = animation.oncancel = () => span.remove();
  }

  /** @param {{ key: string, from: Element | null | undefined, emoji: string }[]} grown reactions that others tapped */
  function sample(grown) {
    for (let left = SAMPLED_MAX; left > 0 && grown.length; left -= 1) {
      const [one] = grown.splice(Math.floor(Math.random() * grown.length), 1);
      setTimeout(() => rise(one.from, one.emoji, false), Math.random() * 250);
    }
  }

  return { rise, sample };
}
