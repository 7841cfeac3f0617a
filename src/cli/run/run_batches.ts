/**
 * The open batches of a run, read from its data folder: for status and trace, also while another process works on it.
 */
import { providerOfBatch } from "../../engine/batches/batch_care.ts";
import { BATCHES, type BatchRecord, readBatch, waitingReason } from "../../engine/batches/batch_record.ts";
import type { ItemTrace } from "../../engine/trace.ts";
import type { ReadableStore } from "../../store/folder/store_copy.ts";
import { count } from "../numbers.ts";

const SHOWN_MAX = 20;

/** A batch as `status --json` shows it. */
export interface RunBatch {
  /** The provider's; null until it is known here. */
  readonly id: string | null;
  readonly tag: string;
  readonly provider: string;
  readonly model: string;
  readonly state: string;
  readonly items: number;
  /** As far as the provider said when it was polled last; null before. */
  readonly finished: number | null;
  /** Why it waits; absent while nothing is wrong. */
  readonly reason?: string;
}

/** The records of a run's open batches, the oldest first. */
export function recordsOfRun(store: Pick<ReadableStore, "records">, taskId: string): readonly BatchRecord[] {
  const records = store.records(BATCHES).map(readBatch);
  return records
    .filter((record) => record.taskId === taskId)
    .sort((one, other) => one.spooledWallMs - other.spooledWallMs);
}

export function runBatch(record: BatchRecord): RunBatch {
  const { batchId = null, tag, model, state, items, finished = null } = record;
  const reason = waitingReason(record)?.message;
  return {
    ...{ id: batchId, tag, provider: providerOfBatch(record), model, state, items, finished },
    ...(reason === undefined ? {} : { reason }),
  };
}

/** A row for each of the first 20: `300 items with batch_1 of openai:m (running, 120 finished)`. */
export function batchRows(batches: readonly RunBatch[]): [string, string][] {
  const rows = batches
    .slice(0, SHOWN_MAX)
    .map((batch, index): [string, string] => [
      index === 0 ? "batches" : "",
      `${count(batch.items)} ${batch.items === 1 ? "item" : "items"} with ${batchText(batch)}`,
    ]);
  const more = batches.length - SHOWN_MAX;
  return more > 0 ? [...rows, ["", `and ${count(more)} more: perigee batches list`]] : rows;
}

/** With the batch that an open item is in, as what it waits for. */
export function withBatch(trace: ItemTrace, records: readonly BatchRecord[]): ItemTrace {
  const record = records.find(({ lines }) =>
    lines.some(([first, last]) => first <= trace.line && trace.line <= last),
  );
  if (record === undefined || trace.status !== "open") return trace;
  const events = trace.events.filter(({ event }) => event !== "waiting");
  const waiting = { at: null, event: "waiting", detail: `for ${batchText(runBatch(record))}` } as const;
  return { ...trace, events: [...events, waiting] };
}

function batchText({ id, tag, model, state, finished, reason }: RunBatch): string {
  const done = finished === null || finished === 0 ? "" : `, ${count(finished)} finished`;
  const why = reason === undefined ? "" : `: ${reason}`;
  return `${id ?? `(${tag})`} of ${model} (${state}${done})${why}`;
}
