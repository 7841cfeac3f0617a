/**
 * Tokens of requests for other endpoints than a chat's, and the most that they can take.
 *
 *   embedding, moderation   the tokens of the texts and the given token ids; no output
 *   completion              the same; output: its limit, 16 by default (OpenAI's and vLLM's)
 *   response                the texts, and what the JSON of its input, instructions and tools takes; output: its limit
 *
 * Texts have no overhead of messages. Texts of unknown tokenizers have the bound of a chat's texts (request_most.ts). What a
 * server adds by itself has no bound: tools that it runs, files, images, stored prompts.
 */
import type { ProviderSettings } from "../providers/provider.ts";
import { countTokens } from "../tokens/count.ts";
import type { Tokenizer } from "../tokens/models.ts";
import { isList, isObject } from "../work/json.ts";
import { type EndpointRequest, hasNoOutput, type JsonValue } from "../work/request.ts";
import { OUTPUT_TOKENS_MOST, type RequestMost, structureTokens, textsMost, tierOf } from "./request_most.ts";

const COMPLETION_TOKENS = 16;
/** Types of a response's items and parts that are only text, or results of functions. */
const COUNTED_TYPES: ReadonlySet<unknown> = new Set([
  undefined,
  "message",
  "function_call",
  "function_call_output",
  "reasoning",
  "reasoning_text",
  "summary_text",
  "input_text",
  "output_text",
  "refusal",
  "function",
  "custom",
]);
/** Members of a response whose tokens are counted here, or which cost none. */
const FREE_MEMBERS: ReadonlySet<string> = new Set([
  ...["input", "instructions", "include", "max_output_tokens", "max_tool_calls", "metadata"],
  ...["parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "reasoning", "safety_identifier"],
  ...[
    "service_tier",
    "store",
    "stream",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
  ],
  ...["truncation", "user", "background", "previous_response_id", "conversation"],
]);

/** Input tokens as providers count them, rounded up. */
export function endpointTokens(
  { kind, body, texts, tokenIds }: EndpointRequest,
  tokenizer: Tokenizer,
): number {
  const counted = texts.reduce((sum, text) => sum + countTokens(tokenizer.encoding, text), 0);
  const tools =
    kind === "response" && body["tools"] !== undefined
      ? structureTokens(body["tools"], tokenizer)
      : undefined;
  return Math.ceil(counted * tokenizer.factor - 1e-6) + tokenIds + (tools?.expected ?? 0);
}

/** What is measured of it. */
export interface MeasuredEndpoint {
  readonly endpoint: EndpointRequest;
  readonly settings: ProviderSettings;
  readonly tokenizer: Tokenizer;
  /** By `endpointTokens`. */
  readonly countedTokens: number;
  /** The output limit that is sent, in tokens; 0 without one. */
  readonly outputLimit: number;
}

/** The most tokens that one attempt can use. */
export function endpointMost({
  endpoint,
  settings,
  tokenizer,
  countedTokens,
  outputLimit,
}: MeasuredEndpoint): RequestMost {
  const { kind, body, texts, tokenIds } = endpoint;
  const tierFactor = tierOf(body, settings);
  const tier = Math.max(1, tierFactor);
  const textTokens = tokenIds + textsMost(texts, tokenizer, Math.max(0, countedTokens - tokenIds));
  const response = kind === "response" ? responseMost(body, tokenizer) : undefined;
  const output = outputMost(kind, outputLimit);
  return {
    inputTokens: Math.ceil(Math.max(textTokens, response?.inputTokens ?? 0) * tier),
    outputTokens: Math.ceil(output * tier),
    beyondTokens: 0,
    beyondTokensMost: 0,
    tierFactor,
    unbounded: response?.unbounded ?? (kind === "moderation" ? undefined : unboundedOf(kind, body)),
  };
}

function outputMost(kind: EndpointRequest["kind"], limit: number): number {
  if (hasNoOutput(kind)) return 0;
  if (limit > 0) return limit;
  return kind === "completion" ? COMPLETION_TOKENS : OUTPUT_TOKENS_MOST;
}

function unboundedOf(kind: EndpointRequest["kind"], body: EndpointRequest["body"]): string | undefined {
  return kind === "completion" && body["echo"] === true && body["max_tokens"] === undefined
    ? "a completion that repeats its prompt"
    : undefined;
}

function responseMost(
  body: EndpointRequest["body"],
  tokenizer: Tokenizer,
): { readonly inputTokens: number; readonly unbounded: string | undefined } {
  const counted = ["input", "instructions", "tools", "text"].map((name) => body[name] ?? null);
  const inputTokens = counted.reduce<number>((sum, each) => sum + structureTokens(each, tokenizer).most, 0);
  const other = Object.keys(body).find((name) => body[name] !== null && !FREE_MEMBERS.has(name));
  return {
    inputTokens,
    unbounded: other ?? uncounted(body["tools"] ?? null) ?? uncounted(body["input"] ?? null),
  };
}

/** What of items, their parts or tools has no formula, in words. */
function uncounted(value: JsonValue): string | undefined {
  if (isList(value)) {
    for (const each of value) {
      const found = uncounted(each);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (!isObject(value)) return undefined;
  if (!COUNTED_TYPES.has(value["type"]))
    return `a part of type ${JSON.stringify(value["type"])?.slice(0, 40)}`;
  return uncounted(value["content"] ?? null) ?? uncounted(value["output"] ?? null);
}
