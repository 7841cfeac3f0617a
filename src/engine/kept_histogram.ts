/**
 * A histogram (schedule/histogram.ts) as it is kept for later processes, and read again: the file is the user's.
 */
import type { KeptHistogram } from "../schedule/histogram.ts";

const DIGITS = 5;

/** With as many digits as say something. */
export function rounded(histogram: KeptHistogram): [number, number, number][] {
  const short = (value: number): number => Number(value.toPrecision(DIGITS));
  return histogram.map(([bucket, count, mean]) => [bucket, short(count), short(mean)]);
}

export function isHistogram(value: unknown): value is KeptHistogram {
  const isRow = (row: unknown): boolean =>
    Array.isArray(row) && row.length === 3 && row.every((each) => typeof each === "number");
  return Array.isArray(value) && value.every(isRow);
}
