/**
 * `perigee trace`: the life of one item of a run, also while another process works on it.
 */

import { systemDisk } from "../disk.ts";
import { withBatch } from "../engine/shown/recorded_batches.ts";
import { type ItemTrace, traceItem } from "../engine/trace.ts";
import { recordsOfRun } from "./run/run_batches.ts";
import { nounOf, readRun } from "./run/status.ts";
import type { Noun } from "./run/summary.ts";
import { answer } from "./satellites/answer.ts";

/** Options as commander passes them. */
interface TraceArguments {
  readonly data?: string;
  readonly json?: boolean;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. */
export function trace(out: string, key: string, options: Record<string, unknown>): Promise<number> {
  const given: TraceArguments = options; // commander's own shape, declared in status_commands.ts
  return answer(given, async () => {
    const [found, noun] = await readRun(out, given.data, async (store, task, dataDir) => [
      withBatch(
        await traceItem({ store, disk: systemDisk, dataDir }, task, { key }),
        recordsOfRun(store, task.id),
      ),
      nounOf(task, dataDir),
    ]);
    return { json: found, text: traceText(found, noun) };
  });
}

function traceText({ key, line, status, events }: ItemTrace, noun: Noun): string {
  const wide = Math.max(...events.map(({ event }) => event.length));
  const rows = events.map(({ at, event, attempt, detail }) => {
    const what = attempt === undefined ? detail : `request ${attempt}: ${detail}`;
    return `${at ?? "now".padEnd(24)}  ${event.padEnd(wide)}  ${what}\n`;
  });
  return `${key} (${noun} ${line}): ${status}\n${rows.join("")}`;
}
