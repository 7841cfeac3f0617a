/**
 * Which lines of a lot are items, where its file cannot say it any more: it is missing, cut or damaged.
 *
 * Those that have ended are known. How many others of a thousand are items is known from its record, but not which, so the first ones
 * count as items and the rest as blank.
 */
import type { Lot } from "./lot.ts";
import { INDEX_STEP } from "./request_spool.ts";

/** Items of a thousand, and of all before it. */
export function itemsUpTo({ items }: Lot["record"], step: number): number {
  return Math.min((step + 1) * INDEX_STEP, items);
}

/** The lines of a thousand, from line `from` on, that are items, if `count` of these are. The lot's earlier steps must have been read. */
export function itemLinesIn({ record, index }: Lot, step: number, count: number, from = 1): number[] {
  const first = Math.max(from, record.itemLines[step] ?? 1);
  const last = (record.itemLines[step + 1] ?? record.lines + 1) - 1;
  let open = count;
  for (let line = first; line <= last; line += 1) if (index.statusOf(line) !== undefined) open -= 1;
  const lines: number[] = [];
  for (let line = first; line <= last; line += 1) {
    const isItem = index.statusOf(line) !== undefined || open > 0;
    if (isItem) lines.push(line);
    if (isItem && index.statusOf(line) === undefined) open -= 1;
  }
  return lines;
}
