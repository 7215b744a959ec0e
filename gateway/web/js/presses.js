// Presses on buttons, one per finger. A browser gives no `click` to the second of two thumbs, and may swallow one of
// two quick ones; so each pointer that goes up where it went down is a press. Keys and assistive technology click.

/** A finger that moved further than this was scrolling. */
const MOVED_PX = 24;
/** A click that follows a pointer's press within this belongs to it. */
const SAME_MS = 700;

/**
 * @param {HTMLElement} parent
 * @param {string} selector of the buttons in it
 * @param {(button: HTMLElement) => void} pressed
 */
export function listenForPresses(parent, selector, pressed) {
  /** @type {Map<number, { button: HTMLElement, x: number, y: number }>} */
  const down = new Map();
  /** @type {WeakMap<HTMLElement, number>} */
  const last = new WeakMap();
  const find = (/** @type {Event} */ event) =>
    /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest(selector));

  parent.addEventListener("pointerdown", (event) => {
    const button = find(event);
    if (button && event.button === 0) down.set(event.pointerId, { button, x: event.clientX, y: event.clientY });
  });
  parent.addEventListener("pointerup", (event) => {
    const start = down.get(event.pointerId);
    down.delete(event.pointerId);
    if (!start || Math.hypot(event.clientX - start.x, event.clientY - start.y) > MOVED_PX) return;
    last.set(start.button, event.timeStamp);
    pressed(start.button);
  });
  parent.addEventListener("pointercancel", (event) => down.delete(event.pointerId));
  parent.addEventListener("click", (event) => {
    const button = find(event);
    if (!button || event.timeStamp - (last.get(button) ?? -Infinity) < SAME_MS) return;
    pressed(button);
  });
}
