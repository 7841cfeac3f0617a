/**
 * Dumps of the memory of a service, which holds texts of users and keys of providers: no dump may be written to a disk.
 *
 * Core dumps: Linux leaves out of a dump what `/proc/self/coredump_filter` does not name (core(5)); with 0 there a dump
 * holds registers and no memory. It needs no privilege, counts for all threads, and unlike `ulimit -c 0`, which Node cannot set,
 * holds also where dumps are piped to a collector. On other systems the operator sets the limit where the service is started.
 *
 * Heap snapshots: Node writes them on a signal or near the heap's limit when it is started so; such a start is refused.
 */
import { writeFileSync } from "node:fs";
import { messageOf, PerigeeError } from "../errors.ts";

const FILTER_FILE = "/proc/self/coredump_filter";
/** Node takes underscores for dashes. */
const SNAPSHOT_OPTION = /--heapsnapshot[-_](?:signal|near[-_]heap[-_]limit)(?![\w-])/;

/** Keeps core dumps of this process from holding memory, where it can; what prevents that is written to standard error. */
export function emptyCoreDumps(): void {
  if (process.platform !== "linux") return;
  try {
    writeFileSync(FILTER_FILE, "0");
  } catch (error) {
    const reason = messageOf(error);
    process.stderr.write(`perigee: a core dump would hold memory (${reason}): start with ulimit -c 0\n`);
  }
}

/** Throws `invalid_config` when Node was started with an option that writes heap snapshots. */
export function refuseHeapSnapshots(
  env: Readonly<Record<string, string | undefined>>,
  execArgv: readonly string[],
): void {
  for (const [place, text] of [
    ["NODE_OPTIONS", env["NODE_OPTIONS"] ?? ""],
    ["the command line", execArgv.join(" ")],
  ] as const) {
    const [option] = SNAPSHOT_OPTION.exec(text) ?? [];
    if (option !== undefined)
      throw new PerigeeError(
        "invalid_config",
        `${place} has ${option}: a heap snapshot would hold texts of users and keys; start the service without it`,
      );
  }
}
