/**
 * Anthropic: exports of usage and costs, messages, and results of batches.
 *
 *   data > results    GET /v1/organizations/usage_report/messages and /cost_report, also a bucket or a result by itself
 *   message           `usage` of an answer; it has no time, unless the program that logged it added `created_at` or `timestamp`
 *   custom_id, result a line of a batch's results: the message in `result.message`, always in the tier batch
 *
 * Sources, read in November 2026: https://platform.claude.com/docs/en/api/admin-api/usage-cost/get-messages-usage-report and
 * .../get-cost-report. `uncached_input_tokens`, cache reads and cache writes are disjoint; times are RFC 3339; there is no
 * number of requests; the tier is there when the export was grouped by it. `amount` of costs is a text in cents.
 */
import { arrayOf, countOf, objectOf, stringOf, type Unchecked } from "../../providers/json.ts";
import { anthropicUsage } from "../../providers/usage.ts";
import { amountOf } from "../amounts.ts";
import type { Refusal, UsageSink } from "../logged_usage.ts";
import { wallMsOf } from "../times.ts";

const CENTS = 100;

/** A bucket of usage or of costs, each with its results. */
export function readReportBucket(bucket: Unchecked, sink: UsageSink): Refusal {
  const results = arrayOf(bucket["results"]);
  if (results === undefined) return 'an Anthropic bucket without "results"';
  let refusal: Refusal;
  for (const [index, result] of results.entries()) {
    const found = objectOf(result);
    const wrong = found === undefined ? "not an object" : readReportResult(found, sink, bucket);
    refusal ??= wrong === undefined ? undefined : `result ${index + 1}: ${wrong}`;
  }
  return refusal;
}

/** A result by itself has the times of its bucket, if they were copied into it. */
export function readReportResult(result: Unchecked, sink: UsageSink, bucket: Unchecked = result): Refusal {
  const [fromMs, toMs] = [wallMsOf(bucket["starting_at"]), wallMsOf(bucket["ending_at"])];
  if (result["amount"] !== undefined) {
    const cents = amountOf(result["amount"]);
    if (Number.isNaN(cents) || stringOf(result["currency"])?.toUpperCase() !== "USD")
      return "an Anthropic cost result without an amount in USD";
    sink.cost("anthropic", cents / CENTS, fromMs, toMs);
    return undefined;
  }
  const writes = objectOf(result["cache_creation"]);
  const fresh = countOf(result["uncached_input_tokens"]);
  const outputTokens = countOf(result["output_tokens"]);
  if (fresh === undefined || outputTokens === undefined)
    return "an Anthropic usage result without uncached_input_tokens and output_tokens";
  const hourWriteTokens = countOf(writes?.["ephemeral_1h_input_tokens"]) ?? 0;
  const cacheWriteTokens = hourWriteTokens + (countOf(writes?.["ephemeral_5m_input_tokens"]) ?? 0);
  const cachedTokens = countOf(result["cache_read_input_tokens"]) ?? 0;
  sink.usage({
    format: "anthropic",
    provider: "anthropic",
    model: stringOf(result["model"]) ?? "",
    tier: stringOf(result["service_tier"]),
    requests: 0,
    isSum: true,
    fromMs,
    toMs,
    inputTokens: fresh + cachedTokens + cacheWriteTokens,
    cachedTokens,
    cacheWriteTokens,
    hourWriteTokens,
    outputTokens,
    statedUsd: Number.NaN,
  });
  return undefined;
}

/** A line of a batch's results. */
export function readResultLine(line: Unchecked, sink: UsageSink): Refusal {
  const message = objectOf(objectOf(line["result"])?.["message"]);
  if (message?.["usage"] !== undefined) return readMessage(message, sink, "batch");
  sink.without("failed");
  return undefined;
}

/** A message with `usage`. */
export function readMessage(message: Unchecked, sink: UsageSink, servedTier?: string): Refusal {
  const model = stringOf(message["model"]);
  if (model === undefined) return 'a message with "usage" but without "model"';
  const usage = anthropicUsage(message["usage"]);
  if (usage === undefined) return 'the counts in "usage" are not whole numbers';
  const sent = objectOf(message["usage"]);
  const atMs = wallMsOf(message["created_at"] ?? message["timestamp"]);
  sink.usage({
    format: "anthropic",
    provider: "anthropic",
    model,
    tier: servedTier ?? stringOf(sent?.["service_tier"]),
    requests: 1,
    isSum: false,
    fromMs: atMs,
    toMs: atMs,
    inputTokens: usage.inputTokens,
    cachedTokens: usage.cachedTokens,
    cacheWriteTokens: usage.cacheWriteTokens,
    hourWriteTokens: usage.hourWriteTokens ?? 0,
    outputTokens: usage.outputTokens,
    statedUsd: Number.NaN,
  });
  return undefined;
}
