/**
 * Open batches as their records show them: for people and programs, also beside the process that works on them.
 */
import { providerOfBatch } from "../batches/batch_care.ts";
import { type BatchRecord, waitingReason } from "../batches/batch_record.ts";
import type { TraceEvent } from "../item_life.ts";

/** A batch as its record shows it. */
export interface RecordedBatch {
  /** The provider's; null until it is known here. */
  readonly id: string | null;
  /** Its name in the data folder, and its tag at the provider. */
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

export function recordedBatch(record: BatchRecord): RecordedBatch {
  const { batchId = null, tag, model, state, items, finished = null } = record;
  const reason = waitingReason(record)?.message;
  return {
    ...{ id: batchId, tag, provider: providerOfBatch(record), model, state, items, finished },
    ...(reason === undefined ? {} : { reason }),
  };
}

/** `batch_1 of openai:m (running, 120 finished)`. */
export function batchText({ id, tag, model, state, finished, reason }: RecordedBatch): string {
  const done = finished === null || finished === 0 ? "" : `, ${finished.toLocaleString("en-US")} finished`;
  const why = reason === undefined ? "" : `: ${reason}`;
  return `${id ?? `(${tag})`} of ${model} (${state}${done})${why}`;
}

/** What can be in a batch. */
interface TracedItem {
  readonly line: number;
  readonly status: string;
  readonly events: readonly TraceEvent[];
}

/** With the batch that an open item is in, as what it waits for. `records`: of its run. */
export function withBatch<T extends TracedItem>(trace: T, records: readonly BatchRecord[]): T {
  const record = records.find(({ lines }) =>
    lines.some(([first, last]) => first <= trace.line && trace.line <= last),
  );
  if (record === undefined || trace.status !== "open") return trace;
  const events = trace.events.filter(({ event }) => event !== "waiting");
  const waiting = { at: null, event: "waiting", detail: `for ${batchText(recordedBatch(record))}` } as const;
  return { ...trace, events: [...events, waiting] };
}
