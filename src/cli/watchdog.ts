/**
 * The watchdog of `perigee serve`: a thread that ends the process with 70 when the main thread is blocked for 30 s, so
 * that its supervisor can start it again. Its work continues there as after any crash: nothing is done twice.
 *
 *   main thread:  turns -> counts a beat -> turns ...        watchdog (`watchdog_worker.ts`):  looks whether it counts on
 *
 * A thread cannot end its process with a code by itself: `process.exit` in a worker ends only the worker. It asks the
 * main thread to exit through V8's inspector, which breaks into a loop, a regular expression or a wait of JavaScript.
 * Where the thread hangs in a call of the operating system (a synchronous read, a child that is waited for) nothing
 * can, and two seconds later it is SIGKILL, which a shell shows as 137.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { Clock, Timer } from "../clock.ts";
import { PerigeeError } from "../errors.ts";

/** What the thread is started with. */
export interface WatchdogData {
  /** Of one Int32: rises while the main thread turns. */
  readonly beats: SharedArrayBuffer;
  readonly lookMs: number;
  readonly stillMsMax: number;
}

export interface Watchdog {
  /** Resolves when its thread has ended. */
  stop(): Promise<void>;
}

const SECONDS = 30;
const SECONDS_MAX = 86_400;
const LOOK_MS_MAX = 1_000;
/** Looks within the time that the main thread may be blocked. */
const LOOKS = 10;

/** How long the main thread may be blocked, in milliseconds; 0: no watchdog. Throws `invalid_config`. */
export function watchdogMs(env: Readonly<Record<string, string | undefined>>): number {
  const text = env["PERIGEE_WATCHDOG_SECONDS"] ?? String(SECONDS);
  const seconds = /^\d{1,6}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  if (seconds <= SECONDS_MAX) return seconds * 1_000;
  throw new PerigeeError(
    "invalid_config",
    `PERIGEE_WATCHDOG_SECONDS must be a number from 0 (no watchdog) to ${SECONDS_MAX}, got ${JSON.stringify(text)}`,
  );
}

/** Watches the thread that calls it; keeps no process from ending. `stillMsMax` 0 watches nothing. */
export function startWatchdog(clock: Clock, stillMsMax: number): Watchdog {
  if (stillMsMax === 0) return { stop: async () => undefined };
  const lookMs = Math.min(LOOK_MS_MAX, stillMsMax / LOOKS);
  const beats = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const counter = new Int32Array(beats);
  let timer: Timer;
  const beat = (): void => {
    Atomics.add(counter, 0, 1);
    timer = clock.timer(lookMs / 2, beat, { keepsAlive: false });
  };
  beat();
  const worker = new Worker(threadFile(), {
    name: "perigee-watchdog",
    execArgv: [],
    workerData: { beats, lookMs, stillMsMax } satisfies WatchdogData,
  });
  worker.unref();
  worker.on("error", (error) => process.stderr.write(`perigee: the watchdog has ended: ${error.message}\n`));
  return {
    stop: async () => {
      timer.cancel();
      await worker.terminate();
    },
  };
}

function threadFile(): URL {
  const isSource = import.meta.url.endsWith(".ts");
  const path = isSource ? "../../dist/cli/watchdog_worker.js" : "./watchdog_worker.js";
  const file = new URL(path, import.meta.url);
  if (isSource && !existsSync(file))
    throw new PerigeeError("internal_error", `${fileURLToPath(file)} is missing: run npm run build first`);
  return file;
}
