// All browser tests in one process: they share a rig and a Chromium, and run one after the other.

import assert from "node:assert/strict";
import { test } from "node:test";
import { complaints } from "./support.js";
import "./taps.js";
import "./stage.js";
import "./network.js";
import "./console.js";
import "./reading.js";
import "./pictures.js";

test("meanwhile no page asked another host, broke its policy or threw", () => {
  assert.deepEqual(complaints, []);
});
