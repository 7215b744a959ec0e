// The live chart of the last minutes: taps per second, a sample each second, drawn as SVG with a summary in words.

import { amount, get, text } from "./page.js";

/** Five minutes: long enough to see a talk's last moments, short enough to see now. */
const SAMPLES_MAX = 300;
/** The chart begins with one minute and grows with what there is to show. */
const MINUTE = 60;
const WIDTH = 600;
const HEIGHT = 160;
/** The words change this often, so that a screen reader is not interrupted. */
const TOLD_EVERY_MS = 15_000;

/** The next of 10, 20, 50, 100, … : the scale moves seldom.
 * @param {number} peak
 * @returns {number}
 */
export function top(peak) {
  let step = 10;
  for (const factor of [2, 2.5, 2]) {
    if (step >= peak) return step;
    step *= factor;
  }
  return step >= peak ? step : 10 * top(peak / 10);
}

/** @param {number[]} samples newest last @param {number} minutes @param {number} scale */
export function line(samples, minutes, scale) {
  const step = WIDTH / (minutes * MINUTE - 1);
  return samples
    .map((value, index) => {
      const x = WIDTH - (samples.length - 1 - index) * step;
      return `${x.toFixed(1)},${(HEIGHT - (value / scale) * HEIGHT).toFixed(1)}`;
    })
    .join(" ");
}

export function chart() {
  /** @type {number[]} */
  const samples = [];
  let toldAt = -Infinity;
  return {
    /** @param {number} value */
    add(value) {
      samples.push(value);
      if (samples.length > SAMPLES_MAX) samples.shift();
      const peak = Math.max(...samples);
      const scale = top(peak);
      const minutes = Math.ceil(samples.length / MINUTE);
      const points = line(samples, minutes, scale);
      const first = points.split(",", 1)[0];
      get("chart-line").setAttribute("points", points);
      get("chart-area").setAttribute("points", `${first},${HEIGHT} ${points} ${WIDTH},${HEIGHT}`);
      get("chart-from").textContent = text("chart_from", { n: minutes });
      get("chart-top").textContent = amount(scale);
      if (performance.now() - toldAt < TOLD_EVERY_MS) return;
      toldAt = performance.now();
      const mean = Math.round(samples.reduce((sum, one) => sum + one, 0) / samples.length);
      const words = { n: minutes, now: amount(value), peak: amount(peak), mean: amount(mean) };
      get("chart").setAttribute("aria-label", text("chart", words));
    },
  };
}
