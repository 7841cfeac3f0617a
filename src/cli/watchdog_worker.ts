/**
 * The watchdog's thread: counts how long the main thread has been blocked, and ends the process at the limit.
 *
 *   looking: beats counted on -> still 0        else still += time since the last look, at most two looks' worth
 *   still >= limit -> main thread asked to exit with 70 -> 2 s later SIGKILL
 *
 * Time that this thread did not have either (a suspended machine, a stopped process) counts as at most two looks, so it
 * ends nothing.
 */
import { Session } from "node:inspector";
import { isMainThread, workerData } from "node:worker_threads";
import { systemClock } from "../clock.ts";
import type { WatchdogData } from "./watchdog.ts";

const KILL_AFTER_MS = 2_000;

if (!isMainThread) watch(workerData as WatchdogData); // watchdog.ts starts it so

function watch({ beats, lookMs, stillMsMax }: WatchdogData): void {
  const counter = new Int32Array(beats);
  let seen = Atomics.load(counter, 0);
  let stillMs = 0;
  let lookedMs = systemClock.nowMs();
  const look = (): void => {
    const nowMs = systemClock.nowMs();
    const beat = Atomics.load(counter, 0);
    stillMs = beat === seen ? stillMs + Math.min(nowMs - lookedMs, 2 * lookMs) : 0;
    seen = beat;
    lookedMs = nowMs;
    if (stillMs >= stillMsMax) end(stillMsMax);
    else systemClock.timer(lookMs, look);
  };
  systemClock.timer(lookMs, look);
}

/** This thread writes nothing itself: standard error may be what the main thread is stuck on. */
function end(stillMsMax: number): void {
  systemClock.timer(KILL_AFTER_MS, () => process.kill(process.pid, "SIGKILL"));
  const message = `perigee: the main thread was blocked for ${stillMsMax / 1_000} s, ending the process`;
  const session = new Session();
  session.connectToMainThread();
  session.post("Runtime.evaluate", {
    expression: `try { console.error(${JSON.stringify(message)}) } finally { process.exit(70) }`,
  });
}
