/**
 * How long answers take (schedule/latency.ts), kept for later processes.
 */
import type { KeptHistogram } from "../schedule/histogram.ts";
import type { KeptLatencies, Latencies } from "../schedule/latency.ts";
import type { ModelFigures } from "./kept_by_model.ts";

const DIGITS = 5;

/** The latencies, as they are kept. */
export function keptLatencies(latencies: Latencies): ModelFigures {
  return {
    restore: (model, kept) => {
      if (Array.isArray(kept)) latencies.restore(model, kept.filter(isKept));
    },
    *changes() {
      for (const [model, known] of latencies.changes())
        yield [model, known.map(([kind, ...both]) => [kind, ...both.map(rounded)])];
    },
  };
}

function rounded(histogram: KeptHistogram): [number, number, number][] {
  const short = (value: number): number => Number(value.toPrecision(DIGITS));
  return histogram.map(([bucket, count, mean]) => [bucket, short(count), short(mean)]);
}

function isKept(value: unknown): value is KeptLatencies {
  if (!Array.isArray(value) || value.length !== 3) return false;
  const [kind, ...both] = value as readonly unknown[];
  return Number.isInteger(kind) && both.every(isHistogram);
}

function isHistogram(value: unknown): value is KeptHistogram {
  const isRow = (row: unknown): boolean =>
    Array.isArray(row) && row.length === 3 && row.every((each) => typeof each === "number");
  return Array.isArray(value) && value.every(isRow);
}
