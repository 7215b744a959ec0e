// How long ago something was, by whichever clock says longer: a phone that sleeps stops the steady clock, and a
// person (or the network) may set the wall clock. Only differences are used: a phone's time of day is never trusted.

/** @returns {import("./types.js").Moment} */
export const now = () => ({ wall: Date.now(), steady: performance.now() });

/**
 * @param {import("./types.js").Moment} since
 * @param {import("./types.js").Moment} [at]
 * @returns {number} milliseconds
 */
export const age = (since, at = now()) =>
  Math.round(Math.max(0, at.wall - since.wall, at.steady - since.steady));
