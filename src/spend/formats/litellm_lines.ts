/**
 * LiteLLM: rows of the table `LiteLLM_SpendLogs`, and payloads that its callbacks log.
 *
 * Sources, read in November 2026: `litellm/proxy/schema.prisma` (https://github.com/BerriAI/litellm), the fields of
 * `StandardLoggingPayload` (https://docs.litellm.ai/docs/proxy/logging_spec). `prompt_tokens` includes cached tokens, of
 * Anthropic too; how many is in `metadata.usage_object`, in OpenAI's or Anthropic's words, and `metadata` is an object or
 * its text. `spend` is what LiteLLM's own price list says, 0 for models that it does not know. A row with `cache_hit` was
 * answered from LiteLLM's cache: no provider was asked. Rows of batches have a `call_type` with `batch` in it.
 */
import { countOf, objectOf, stringOf, type Unchecked } from "../../providers/json.ts";
import { amountOf } from "../amounts.ts";
import { nameWithout, providerOf, providerOfModel } from "../log_providers.ts";
import type { Refusal, UsageSink } from "../logged_usage.ts";
import { wallMsOf } from "../times.ts";

/** A row, as JSON of the table or of a callback. */
export function readSpendRow(row: Unchecked, sink: UsageSink): Refusal {
  const inputTokens = countOf(row["prompt_tokens"]);
  const outputTokens = countOf(row["completion_tokens"]);
  if (inputTokens === undefined || outputTokens === undefined)
    return "a LiteLLM row without whole numbers in prompt_tokens and completion_tokens";
  if (isTrue(row["cache_hit"])) return without(sink, "gateway_cache");
  if (inputTokens + outputTokens === 0) return without(sink, "failed");
  const named = row["custom_llm_provider"];
  const model = nameWithout(named, stringOf(row["model"]) ?? "");
  const spend = amountOf(row["spend"] ?? row["response_cost"]);
  const usage = usageOf(row);
  const cachedTokens = Math.min(inputTokens, cachedOf(row, usage));
  sink.usage({
    format: "litellm",
    provider: providerOf(named) || providerOfModel(model),
    model,
    tier: tierOf(row, usage),
    requests: 1,
    isSum: false,
    fromMs: wallMsOf(row["startTime"]),
    toMs: wallMsOf(row["endTime"] ?? row["startTime"]),
    inputTokens,
    cachedTokens,
    cacheWriteTokens: Math.min(inputTokens - cachedTokens, writtenOf(row, usage)),
    hourWriteTokens: 0,
    outputTokens,
    statedUsd: spend > 0 ? spend : Number.NaN,
  });
  return undefined;
}

function without(sink: UsageSink, why: "failed" | "gateway_cache"): undefined {
  sink.without(why);
  return undefined;
}

function isTrue(value: unknown): boolean {
  return value === true || (typeof value === "string" && value.toLowerCase() === "true");
}

/** `metadata.usage_object`, also where the metadata are a text. */
function usageOf(row: Unchecked): Unchecked | undefined {
  const metadata = row["metadata"];
  const read =
    typeof metadata === "string" && metadata.includes('"usage_object"') ? parsed(metadata) : metadata;
  return objectOf(objectOf(read)?.["usage_object"]);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function cachedOf(row: Unchecked, usage: Unchecked | undefined): number {
  return (
    countOf(row["cache_read_input_tokens"]) ??
    countOf(usage?.["cache_read_input_tokens"]) ??
    countOf(objectOf(usage?.["prompt_tokens_details"])?.["cached_tokens"]) ??
    0
  );
}

function writtenOf(row: Unchecked, usage: Unchecked | undefined): number {
  const details = objectOf(usage?.["prompt_tokens_details"]);
  return (
    countOf(row["cache_creation_input_tokens"]) ??
    countOf(usage?.["cache_creation_input_tokens"]) ??
    countOf(details?.["cache_creation_tokens"]) ??
    countOf(details?.["cache_write_tokens"]) ??
    0
  );
}

function tierOf(row: Unchecked, usage: Unchecked | undefined): string | undefined {
  if (stringOf(row["call_type"])?.includes("batch") === true) return "batch";
  return stringOf(usage?.["service_tier"]) ?? stringOf(row["service_tier"]);
}
