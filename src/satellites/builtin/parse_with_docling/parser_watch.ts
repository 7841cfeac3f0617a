/**
 * Ends the process that parses when it takes too much memory, or when its parent has died: its main thread may be busy for ever.
 *
 * The heap has a bound set by Node; what is outside of it, such as unpacked pictures of a PDF, does not have one.
 */
import { workerData } from "node:worker_threads";

interface WatchSettings {
  /** Resident memory, at most. */
  readonly bytesMax: number;
  readonly parent: number;
}

const LOOK_MS = 20;
const { bytesMax, parent } = workerData as WatchSettings; // of parser_process.ts
const never = new Int32Array(new SharedArrayBuffer(4));

for (;;) {
  Atomics.wait(never, 0, 0, LOOK_MS);
  if (process.memoryUsage.rss() > bytesMax || process.ppid !== parent) process.kill(process.pid, "SIGKILL");
}
