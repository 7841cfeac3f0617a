/**
 * Converts histograms (queue/histogram.ts) to what is kept for later processes, and checks what is read: users may edit the file.
 */
import type { KeptHistogram } from "../../queue/histogram.ts";

const DIGITS = 5;

/** A histogram with 5 significant digits, to keep the file small. */
export function rounded(histogram: KeptHistogram): [number, number, number][] {
  const short = (value: number): number => Number(value.toPrecision(DIGITS));
  return histogram.map(([bucket, count, mean]) => [bucket, short(count), short(mean)]);
}

/** Whether a value of the file has the shape of a histogram. */
export function isHistogram(value: unknown): value is KeptHistogram {
  const isRow = (row: unknown): boolean =>
    Array.isArray(row) && row.length === 3 && row.every((each) => typeof each === "number");
  return Array.isArray(value) && value.every(isRow);
}
