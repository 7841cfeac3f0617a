/**
 * How long answers take (queue/latency.ts), kept for later processes.
 */
import type { KeptLatencies, Latencies } from "../../queue/latency.ts";
import type { ModelFigures } from "./kept_by_model.ts";
import { isHistogram, rounded } from "./kept_histogram.ts";

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

function isKept(value: unknown): value is KeptLatencies {
  if (!Array.isArray(value) || value.length !== 3) return false;
  const [kind, ...both] = value as readonly unknown[];
  return Number.isInteger(kind) && both.every(isHistogram);
}
