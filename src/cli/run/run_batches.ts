/**
 * The open batches of a run, read from its data folder: for status and trace, also while another process works on it.
 */
import { BATCHES, type BatchRecord, readBatch } from "../../engine/batches/batch_record.ts";
import { batchText, type RecordedBatch } from "../../engine/shown/recorded_batches.ts";
import type { ReadableStore } from "../../store/folder/store_copy.ts";
import { count } from "../numbers.ts";

const SHOWN_MAX = 20;

/** The records of a run's open batches, the oldest first. */
export function recordsOfRun(store: Pick<ReadableStore, "records">, taskId: string): readonly BatchRecord[] {
  const records = store.records(BATCHES).map(readBatch);
  return records
    .filter((record) => record.taskId === taskId)
    .sort((one, other) => one.spooledWallMs - other.spooledWallMs);
}

/** A row for each of the first 20: `300 items with batch_1 of openai:m (running, 120 finished)`. */
export function batchRows(batches: readonly RecordedBatch[]): [string, string][] {
  const rows = batches
    .slice(0, SHOWN_MAX)
    .map((batch, index): [string, string] => [
      index === 0 ? "batches" : "",
      `${count(batch.items)} ${batch.items === 1 ? "item" : "items"} with ${batchText(batch)}`,
    ]);
  const more = batches.length - SHOWN_MAX;
  return more > 0 ? [...rows, ["", `and ${count(more)} more: perigee batches list`]] : rows;
}
