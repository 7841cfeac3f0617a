/**
 * Which items of a task are done, as records of a statement.
 */
import type { LineSet } from "../work/line_set.ts";
import { BITS_ITEMS, type LogRecords } from "./records.ts";

/** Runs of items that are done as ranges, the rest as bits. */
export function stateDone(task: number, done: LineSet, records: LogRecords): void {
  if (done.size === 0) return;
  let range = { first: 0, count: 0 };
  for (let first = 0; first <= done.highest; first += BITS_ITEMS) {
    const bits = done.slice(first, BITS_ITEMS);
    if (bits === undefined) continue;
    if (bits.some((byte) => byte !== 0xff)) {
      records.add("doneBits", { task, first, bits });
    } else if (range.first + range.count === first) {
      range.count += BITS_ITEMS;
    } else {
      if (range.count > 0) records.add("doneRange", { task, ...range });
      range = { first, count: BITS_ITEMS };
    }
  }
  if (range.count > 0) records.add("doneRange", { task, ...range });
}
