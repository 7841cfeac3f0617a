/**
 * Token counts as each protocol reports them, read into one shape. Sources: the official SDKs' response types.
 *
 *   openai     input = prompt_tokens, output = completion_tokens; both include their details
 *   anthropic  input = input_tokens + cache_creation_input_tokens + cache_read_input_tokens (disjoint);
 *              `cache_creation.ephemeral_1h_input_tokens` is the part of the writes that is kept for an hour
 *   gemini     input = promptTokenCount + toolUsePromptTokenCount, output = candidatesTokenCount + thoughtsTokenCount
 *
 * `believable` is the one check that every provider's usage passes, custom codecs included: counts that cannot be true make
 * the usage unknown, as if the provider had not sent it.
 *
 * Limits: any detail object may be missing or null and then counts 0; a total that is missing, negative, fractional or
 * text makes the whole usage `undefined`, and the caller estimates. More cached or written than input counts as 0, and the
 * usage as estimated; more reasoning than output counts as all of it.
 */
import type { Usage } from "../work/outcome.ts";
import { countOf, objectOf, type Unchecked } from "./json.ts";

/**
 * The most input, and the most output, tokens of one answer that are believed. The longest context window of any model has 10
 * million tokens (Llama 4 Scout, https://ai.meta.com/blog/llama-4-multimodal-intelligence/, read in November 2026), and it
 * holds both.
 */
const USAGE_TOKENS_MAX = 10_000_000;

/** What an answer is known to have taken at least. */
export interface KnownTokens {
  /** Of the request, counted before it was sent. */
  readonly inputTokens: number;
  /** Whether the answer holds text, tool calls or a refusal. */
  readonly hasOutput: boolean;
}

/** The usage, or `undefined` where it cannot be true: a count that is not a whole number from 0 to 10 million, or 0 of what exists, or a charge that is not an amount. */
export function believable(usage: Usage | undefined, known: KnownTokens): Usage | undefined {
  if (usage === undefined) return undefined;
  const { inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens, chargedUsd } = usage;
  const counts = [inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens];
  if (!counts.every(isPlausible) || !isCharge(chargedUsd)) return undefined;
  if (inputTokens === 0 && known.inputTokens > 0) return undefined;
  return outputTokens === 0 && known.hasOutput ? undefined : usage;
}

/** `usage` of a chat completion. `hasCost`: the provider adds `cost` in USD (OpenRouter). */
export function openaiUsage(value: unknown, hasCost: boolean): Usage | undefined {
  const usage = objectOf(value);
  if (usage === undefined) return undefined;
  const input = countOf(usage["prompt_tokens"]);
  const output = countOf(usage["completion_tokens"]);
  if (input === undefined || output === undefined) return undefined;
  const inputDetails = objectOf(usage["prompt_tokens_details"]);
  // DeepSeek reports its cache beside the totals instead of in the details.
  const cached = countOf(inputDetails?.["cached_tokens"]) ?? countOf(usage["prompt_cache_hit_tokens"]) ?? 0;
  const written = countOf(inputDetails?.["cache_write_tokens"]) ?? 0;
  const reasoning = detailOf(usage["completion_tokens_details"], "reasoning_tokens");
  const counts = bounded(input, cached, written, output, reasoning);
  const cost = hasCost ? usage["cost"] : undefined;
  if (typeof cost === "number" && cost >= 0 && Number.isFinite(cost)) return { ...counts, chargedUsd: cost };
  return counts;
}

/** `usage` of a message. */
export function anthropicUsage(value: unknown): Usage | undefined {
  const usage = objectOf(value);
  if (usage === undefined) return undefined;
  const fresh = countOf(usage["input_tokens"]);
  const output = countOf(usage["output_tokens"]);
  const written = countOrNull(usage["cache_creation_input_tokens"]);
  const cached = countOrNull(usage["cache_read_input_tokens"]);
  if (fresh === undefined || output === undefined || written === undefined || cached === undefined) {
    return undefined;
  }
  const reasoning = detailOf(usage["output_tokens_details"], "thinking_tokens");
  const counts = bounded(fresh + written + cached, cached, written, output, reasoning);
  const hours = detailOf(usage["cache_creation"], "ephemeral_1h_input_tokens");
  return hours === 0 ? counts : { ...counts, hourWriteTokens: Math.min(hours, counts.cacheWriteTokens) };
}

/** `usageMetadata` of a generateContent response. Zero counts are left out there, as proto3 does. */
export function geminiUsage(value: unknown): Usage | undefined {
  const usage = objectOf(value);
  if (usage === undefined) return undefined;
  const prompt = countOf(usage["promptTokenCount"]);
  const tools = countOrNull(usage["toolUsePromptTokenCount"]);
  const candidates = countOrNull(usage["candidatesTokenCount"]);
  const thoughts = countOrNull(usage["thoughtsTokenCount"]);
  if (prompt === undefined || tools === undefined || candidates === undefined || thoughts === undefined) {
    return undefined;
  }
  const cached = countOf(usage["cachedContentTokenCount"]) ?? 0;
  return bounded(prompt + tools, cached, 0, candidates + thoughts, thoughts);
}

function isCharge(usd = 0): boolean {
  return usd >= 0 && usd < Number.POSITIVE_INFINITY;
}

function isPlausible(count: number): boolean {
  return Number.isSafeInteger(count) && count >= 0 && count <= USAGE_TOKENS_MAX;
}

/** Counts of which no part is more than its total. */
export function bounded(
  input: number,
  cached: number,
  written: number,
  output: number,
  reasoning: number,
): Usage {
  const isNonsense = cached + written > input;
  return {
    inputTokens: input,
    cachedTokens: isNonsense ? 0 : cached,
    cacheWriteTokens: isNonsense ? 0 : written,
    outputTokens: output,
    reasoningTokens: Math.min(reasoning, output),
    isEstimated: isNonsense,
  };
}

/** A part of a total: absent or null is 0, nonsense is `undefined`. */
function countOrNull(value: unknown): number | undefined {
  return value === undefined || value === null ? 0 : countOf(value);
}

function detailOf(value: unknown, name: string): number {
  const details: Unchecked | undefined = objectOf(value);
  return details === undefined ? 0 : (countOf(details[name]) ?? 0);
}
