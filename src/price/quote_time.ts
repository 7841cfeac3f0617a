/**
 * How long a group of models takes under the limits that it shares.
 *
 *   seconds = max(latency, n / rate x 60 + latency for each rate, latency of all items / concurrency)
 *
 * The last request leaves after n / rate minutes and takes its latency. Retries and other work in the same limits are
 * not counted: this is the least time, at full use of the limits.
 */
import type { LimitSettings } from "../work/limits.ts";

/** What sets the time; `latency`: no limit matters; `backlog`: what waits already; `nothing`: there is no work. */
export type LimitBound = keyof typeof BOUND_NAMES | "concurrency" | "latency" | "backlog" | "nothing";

export interface TimeNeeded {
  readonly seconds: number;
  readonly boundBy: LimitBound;
}

/** The work of a group; all finite and not negative. */
export interface GroupLoad {
  readonly items: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Latencies of all items, in sum. */
  readonly busySeconds: number;
  /** The longest latency of one item. */
  readonly latencySeconds: number;
}

const BOUND_NAMES = {
  requests_per_minute: "requestsPerMinute",
  tokens_per_minute: "tokensPerMinute",
  input_tokens_per_minute: "inputTokensPerMinute",
  output_tokens_per_minute: "outputTokensPerMinute",
} as const;

/** The least time that the work takes. */
export function timeNeeded(load: GroupLoad, limits: LimitSettings): TimeNeeded {
  if (load.items === 0) return { seconds: 0, boundBy: "nothing" };
  const amounts = {
    requests_per_minute: load.items,
    tokens_per_minute: load.inputTokens + load.outputTokens,
    input_tokens_per_minute: load.inputTokens,
    output_tokens_per_minute: load.outputTokens,
  };
  let longest: TimeNeeded = { seconds: load.latencySeconds, boundBy: "latency" };
  const consider = (seconds: number, boundBy: LimitBound): void => {
    if (seconds > longest.seconds) longest = { seconds, boundBy };
  };
  for (const [bound, setting] of Object.entries(BOUND_NAMES) as [
    keyof typeof BOUND_NAMES,
    keyof LimitSettings,
  ][]) {
    const rate = limits[setting];
    if (rate === undefined || !(rate > 0) || amounts[bound] === 0) continue;
    consider((amounts[bound] / rate) * 60 + load.latencySeconds, bound);
  }
  const { concurrency } = limits;
  if (concurrency !== undefined && concurrency > 0) consider(load.busySeconds / concurrency, "concurrency");
  return longest;
}
