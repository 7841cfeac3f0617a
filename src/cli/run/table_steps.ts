/**
 * What a run over a table does before and after its requests are answered: request lines are made of the rows, and the output is written.
 *
 * A signal ends either step: nothing is lost, because the same command begins it again. Loaded by every run; `table_run.ts` only by
 * those over tables.
 */
import type { Summary } from "../../engine/items/progress.ts";
import type { DiskSpace } from "../../engine/journal/disk_space.ts";
import { PerigeeError } from "../../errors.ts";
import type { ProgressDisplay } from "../display/progress.ts";
import { collectHeap } from "../heap.ts";
import { onSignals } from "../signals.ts";
import type { TableStep } from "../tables/table_disk.ts";
import type { TableRun } from "../tables/table_run.ts";

interface Steps {
  /** Undefined for a run of lines, which has no such steps. */
  readonly table: TableRun | undefined;
  readonly room: Pick<DiskSpace, "waitFor">;
  readonly display: ProgressDisplay;
  readonly out: string;
}

/** Throws as `TableRun.prepare`; `interrupted`. */
export async function prepareTable({ table, room, display }: Steps): Promise<void> {
  if (table === undefined) return;
  const stopped = "the requests of the rows are not written yet, and nothing was sent for them";
  await inStep({ room, display, stopped }, (step) => table.prepare(step));
}

/** The summary with the table as the output, which is written once every row has an answer or an error. Throws as `TableRun.finish`; `interrupted`. */
export async function finishTable({ table, room, display, out }: Steps, summary: Summary): Promise<Summary> {
  if (table === undefined) return summary;
  if (summary.status === "completed") {
    display.open(out, "writing");
    collectHeap(); // what the run left, 30 MB
    const stopped = `${out} is not written yet, and all answers are kept`;
    await inStep({ room, display, stopped }, (step) => table.finish(step));
    display.close();
  } else {
    process.stderr.write(`${out} is written when every row has an answer or an error\n`);
  }
  return { ...summary, output: out };
}

async function inStep(
  { room, display, stopped }: Pick<Steps, "room" | "display"> & { readonly stopped: string },
  work: (step: TableStep) => Promise<void>,
): Promise<void> {
  const left = new AbortController();
  const unlisten = onSignals((signal) =>
    left.abort(new PerigeeError("interrupted", `${signal}: ${stopped}; the same command continues`)),
  );
  const onFull = (path: string): void =>
    display.note(`perigee: no space is left on the disk of ${path}; it is tried again every second`);
  try {
    await work({ room, signal: left.signal, onFull });
  } finally {
    unlisten();
  }
}
