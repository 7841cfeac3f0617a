/**
 * How long outputs get (schedule/output_lengths.ts), kept for later processes: what a request without an output limit reserves.
 */
import type { OutputLengths } from "../schedule/output_lengths.ts";
import type { ModelFigures } from "./kept_by_model.ts";
import { isHistogram, rounded } from "./kept_histogram.ts";

/** The lengths, as they are kept. */
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
