/**
 * Summaries of runs that earlier versions finished, as this one shows them.
 *
 * The first version stored one amount at list price, which was billed, and not what its attempts in doubt may have cost.
 */
import type { Summary } from "./progress.ts";

/** A stored summary; what follows came later than the first version. */
export type StoredSummary = Omit<Summary, "warnings" | "held" | "usage" | "cost"> &
  Partial<Pick<Summary, "warnings" | "held">> & {
    readonly usage: Optional<Summary["usage"], "cache_write_tokens">;
    readonly cost: Optional<Summary["cost"], "billed_usd" | "ambiguous_usd"> & {
      readonly saved_usd?: number;
    };
  };

type Optional<T, K extends keyof T> = Omit<T, K> & Partial<Pick<T, K>>;

export function completeSummary(stored: StoredSummary): Summary {
  const { saved_usd: _, ...cost } = stored.cost;
  const { ambiguous_attempts, cache_write_tokens = 0 } = stored.usage;
  const { billed_usd = cost.list_usd, ambiguous_usd = 0, is_estimated } = cost;
  const isUnknown = cost.ambiguous_usd === undefined && ambiguous_attempts > 0;
  return {
    ...stored,
    warnings: stored.warnings ?? {},
    held: stored.held ?? [],
    usage: { ...stored.usage, cache_write_tokens },
    cost: { ...cost, billed_usd, ambiguous_usd, is_estimated: is_estimated || isUnknown },
  };
}
