/**
 * Keeps the lengths of outputs (queue/output_lengths.ts) for later processes: a request without an output limit reserves by them.
 */
import type { OutputLengths } from "../../queue/output_lengths.ts";
import type { ModelFigures } from "./kept_by_model.ts";
import { isHistogram, rounded } from "./kept_histogram.ts";

/** `lengths` as figures that are kept by model. */
export function keptLengths(lengths: OutputLengths): ModelFigures {
  return {
    restore: (model, kept) => {
      if (isHistogram(kept)) lengths.restore(model, kept);
    },
    *changes() {
      for (const [model, known] of lengths.changes()) yield [model, rounded(known)];
    },
  };
}
