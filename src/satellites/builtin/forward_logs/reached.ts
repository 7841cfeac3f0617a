/**
 * What an execution of `forward-logs` has reached, as it is noted from one attempt to the next.
 */
import type { Json } from "../../../work/json.ts";
import type { Notes } from "../../sdk/satellite.ts";

const NOTE = "reached";
const REASONS_MAX = 5;

/** Kept in the notes of the execution, so it is plain data. */
export interface ForwardProgress {
  /** Unix time of the first attempt: that of entries without a time, so that repeats are alike. */
  readonly wallMs: number;
  /** Entries of batches that were settled. */
  readonly entries: number;
  /** Bytes of the file up to there. */
  readonly offset: number;
  readonly batches: number;
  /** Entries that were refused for good. */
  readonly rejected: number;
  /** The first of them. */
  readonly reasons: readonly { readonly entry: number | null; readonly reason: string }[];
  /** Of the next batch, what is left to send; null: all of it. */
  readonly again: readonly number[] | null;
}

/** As noted; `wallMs` begins it where nothing is. */
export function readProgress(notes: Notes, wallMs: number): ForwardProgress {
  const note = notes.get(NOTE);
  if (note === undefined)
    return { wallMs, entries: 0, offset: 0, batches: 0, rejected: 0, reasons: [], again: null };
  return note as unknown as ForwardProgress; // nobody else writes this execution's notes
}

/** Durable when it resolves. */
export async function writeProgress(notes: Notes, progress: ForwardProgress): Promise<void> {
  await notes.set(NOTE, { ...progress } as unknown as Json); // plain data
}

/** With more refused entries; `first` is the number of the batch's first entry. */
export function withRejected(
  progress: ForwardProgress,
  rejected: readonly { readonly index?: number; readonly reason: string }[],
  first: number,
): ForwardProgress {
  const more = rejected.map(({ index, reason }) => ({
    entry: index === undefined ? null : first + index,
    reason,
  }));
  return {
    ...progress,
    rejected: progress.rejected + rejected.length,
    reasons: [...progress.reasons, ...more].slice(0, REASONS_MAX),
  };
}
