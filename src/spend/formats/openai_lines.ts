/**
 * OpenAI: exports of usage and costs, answers, and output files of batches.
 *
 *   page > bucket > result   GET /v1/organization/usage/completions, .../embeddings, .../costs, also a bucket or a result by itself
 *   chat.completion          `usage` of an answer; also text_completion, and `response` of the Responses API
 *   custom_id, response      a line of a batch's output file: the answer in `response.body`, always in the tier batch
 *
 * Sources, read in November 2026: https://platform.openai.com/docs/api-reference/usage (types of the SDK openai 6.49,
 * `resources/admin/organization/usage.d.ts`): `input_tokens` includes cached and cache-write tokens; times are Unix seconds;
 * `batch` and `service_tier` are there when the export was grouped by them. `amount.value` of costs is in `amount.currency`.
 */
import { arrayOf, countOf, objectOf, stringOf, type Unchecked } from "../../providers/json.ts";
import { openaiUsage } from "../../providers/usage.ts";
import { amountOf } from "../amounts.ts";
import { providerOfModel } from "../log_providers.ts";
import type { Refusal, UsageSink } from "../logged_usage.ts";
import { wallMsOf } from "../times.ts";

const COMPLETIONS = "organization.usage.completions.result";
const EMBEDDINGS = "organization.usage.embeddings.result";
const COSTS = "organization.costs.result";

/** A bucket of usage or of costs, each with its results. */
export function readBucket(bucket: Unchecked, sink: UsageSink): Refusal {
  const results = arrayOf(bucket["results"]);
  if (results === undefined) return 'an OpenAI bucket without "results"';
  let refusal: Refusal;
  for (const [index, result] of results.entries()) {
    const found = objectOf(result);
    const wrong = found === undefined ? "not an object" : readResult(found, sink, bucket);
    refusal ??= wrong === undefined ? undefined : `result ${index + 1}: ${wrong}`;
  }
  return refusal;
}

/** A result by itself has the times of its bucket, if they were copied into it. */
export function readResult(result: Unchecked, sink: UsageSink, bucket: Unchecked = result): Refusal {
  const [fromMs, toMs] = [wallMsOf(bucket["start_time"]), wallMsOf(bucket["end_time"])];
  const kind = result["object"];
  if (kind === COSTS) return readCosts(result, sink, fromMs, toMs);
  if (kind !== COMPLETIONS && kind !== EMBEDDINGS)
    return `an OpenAI export of ${JSON.stringify(kind)}, which is not priced by text tokens`;
  const inputTokens = countOf(result["input_tokens"]);
  const outputTokens = kind === EMBEDDINGS ? 0 : countOf(result["output_tokens"]);
  if (inputTokens === undefined || outputTokens === undefined)
    return "an OpenAI usage result without input_tokens and output_tokens";
  const cachedTokens = Math.min(inputTokens, countOf(result["input_cached_tokens"]) ?? 0);
  const written = Math.min(inputTokens - cachedTokens, countOf(result["input_cache_write_tokens"]) ?? 0);
  sink.usage({
    format: "openai",
    provider: "openai",
    model: stringOf(result["model"]) ?? "",
    tier: result["batch"] === true ? "batch" : stringOf(result["service_tier"]),
    requests: countOf(result["num_model_requests"]) ?? 0,
    isSum: true,
    fromMs,
    toMs,
    inputTokens,
    cachedTokens,
    cacheWriteTokens: written,
    hourWriteTokens: 0,
    outputTokens,
    statedUsd: Number.NaN,
  });
  return undefined;
}

function readCosts(result: Unchecked, sink: UsageSink, fromMs: number, toMs: number): Refusal {
  const amount = objectOf(result["amount"]);
  const usd = amountOf(amount?.["value"]);
  if (Number.isNaN(usd) || stringOf(amount?.["currency"])?.toLowerCase() !== "usd")
    return "an OpenAI costs result without an amount in usd";
  sink.cost("openai", usd, fromMs, toMs);
  return undefined;
}

/** A line of a batch's output file, of OpenAI or in its format. */
export function readBatchLine(line: Unchecked, sink: UsageSink): Refusal {
  const body = objectOf(objectOf(line["response"])?.["body"]);
  if (body?.["usage"] !== undefined) return readAnswer(body, sink, "batch");
  sink.without("failed");
  return undefined;
}

/** An answer with `usage`. Its provider is read from the model, since other servers send the same objects. */
export function readAnswer(answer: Unchecked, sink: UsageSink, servedTier?: string): Refusal {
  const model = stringOf(answer["model"]);
  if (model === undefined) return 'an answer with "usage" but without "model"';
  const isResponse = answer["object"] === "response";
  const usage = isResponse ? responseUsage(answer["usage"]) : openaiUsage(answer["usage"], true);
  if (usage === undefined) return 'the counts in "usage" are not whole numbers';
  const createdMs = wallMsOf(answer["created"] ?? answer["created_at"]);
  const provider = usage.chargedUsd === undefined ? providerOfModel(model) : "openrouter";
  sink.usage({
    format: "openai",
    provider,
    model,
    tier: servedTier ?? stringOf(answer["service_tier"]),
    requests: 1,
    isSum: false,
    fromMs: createdMs,
    toMs: createdMs,
    inputTokens: usage.inputTokens,
    cachedTokens: usage.cachedTokens,
    cacheWriteTokens: usage.cacheWriteTokens,
    hourWriteTokens: 0,
    outputTokens: usage.outputTokens,
    statedUsd: usage.chargedUsd ?? Number.NaN,
  });
  return undefined;
}

/** The Responses API calls input and output what chat completions call prompt and completion. */
function responseUsage(value: unknown): ReturnType<typeof openaiUsage> {
  const usage = objectOf(value);
  return openaiUsage(
    {
      prompt_tokens: usage?.["input_tokens"],
      completion_tokens: usage?.["output_tokens"],
      prompt_tokens_details: usage?.["input_tokens_details"],
      completion_tokens_details: usage?.["output_tokens_details"],
    },
    false,
  );
}
