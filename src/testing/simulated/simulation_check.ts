/**
 * Whether the options of a simulation are as documented (simulation_terms.ts): a misspelt name would simulate a provider as if it had
 * not been said, and a time that is not a number ends nothing.
 */
import { PerigeeError } from "../../errors.ts";
import { issuesOf, namedErrors, z } from "../../schema.ts";

const seconds = z.number().positive();
const notNegative = z.number().min(0);
const share = z.number().min(0).max(1);
const atLeastOne = z.number().min(1);
const latency = z
  .strictObject({ p50: seconds, p90: seconds, p99: seconds })
  .refine(({ p50, p90, p99 }) => p50 <= p90 && p90 <= p99, {
    message: "quantiles must rise: p50 <= p90 <= p99",
  });
const failure = z.strictObject({
  kind: z.enum(["error", "lost", "not_sent", "hang"]),
  status: z.number().int().min(400).max(599).optional(),
  share: share.optional(),
  fromSeconds: notNegative.optional(),
  toSeconds: notNegative.optional(),
});
const batch = z.strictObject({
  latency: latency.optional(),
  stuckShare: share.optional(),
  cancelSeconds: notNegative.optional(),
});
const provider = z.strictObject({
  latency: latency.optional(),
  flexLatency: latency.optional(),
  flexShed: share.optional(),
  requestsPerMinute: atLeastOne.optional(),
  tokensPerMinute: atLeastOne.optional(),
  outputTokens: notNegative.optional(),
  answer: z.unknown().optional(),
  failures: z.array(failure).optional(),
  batch: batch.optional(),
});
/** `config`, `items` and `run` are checked where an engine reads them. */
const simulation = z.strictObject({
  config: z.unknown().optional(),
  providers: z.record(z.string(), provider).optional(),
  items: z.unknown(),
  run: z.unknown().optional(),
  seed: z.number().int().optional(),
  wallMs: notNegative.max(8.64e15).optional(),
  check: z.unknown().optional(),
});

/** Throws `usage` that names the first place that is not as it must be. */
export function checkSimulation(options: unknown): void {
  const parsed = simulation.safeParse(options, namedErrors);
  if (parsed.success) return;
  const [issue] = issuesOf(parsed.error);
  const place = issue === undefined || issue.path.length === 0 ? "" : ` at ${issue.path.join(".")}`;
  throw new PerigeeError("usage", `simulate${place}: ${issue?.message ?? "not options of a simulation"}`);
}
