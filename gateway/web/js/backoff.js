// When to come back after a close (gateway/PROTOCOL.md, "Close codes").

/** The first wait is up to half a second, so that a blip is hardly seen. */
const FIRST_MS = 500;
/** A hall of thousands must not press on a gateway that is down for long. */
const LONGEST_MS = 30_000;
/** What an overloaded server gets at least, where it named no moment. */
const OVERLOAD_MS = 5_000;

/** Full jitter: anywhere in a span that doubles with each attempt, so that nobody reconnects in step.
 * @param {number} attempt from 0
 * @param {() => number} random
 */
export const backoff = (attempt, random = Math.random) =>
  random() * Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 16));

/**
 * @param {number} code
 * @param {import("./types.js").Bye | null} bye what the server said before
 * @param {number} attempt
 * @param {() => number} [random]
 * @returns {{ waitMs: number, told: boolean } | { never: "missing" | "refused" | "broken" }}
 */
export function afterClose(code, bye, attempt, random = Math.random) {
  if (code === 4404) return { never: "missing" };
  if (code === 1008) return { never: "refused" };
  if (code === 1002 || code === 1003 || code === 1007 || code === 1009) return { never: "broken" };
  // A farewell without a moment means: not by yourself.
  if (bye && bye.retry_ms === undefined) return { never: "refused" };
  if (bye?.retry_ms !== undefined) return { waitMs: bye.retry_ms, told: true };
  const waitMs = backoff(attempt, random);
  return code === 1013 ? { waitMs: OVERLOAD_MS + waitMs, told: true } : { waitMs, told: false };
}
