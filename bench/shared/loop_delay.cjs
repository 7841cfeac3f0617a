/**
 * Preloaded into the measured process: writes the event loop's delay (milliseconds) to the file that LOOP_DELAY_FILE
 * names, when the main thread ends.
 */
const { writeFileSync } = require("node:fs");
const { monitorEventLoopDelay } = require("node:perf_hooks");
const { isMainThread } = require("node:worker_threads");

const file = process.env.LOOP_DELAY_FILE;
if (isMainThread && file !== undefined) {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  process.on("exit", () => {
    const ms = (nanoseconds) => Math.round(nanoseconds / 1e5) / 10;
    writeFileSync(file, JSON.stringify({ p99Ms: ms(delay.percentile(99)) - 5, maxMs: ms(delay.max) - 5 }));
  });
}
