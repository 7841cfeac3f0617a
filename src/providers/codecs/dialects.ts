/**
 * How the servers that speak OpenAI's chat completions differ, as data. One row per provider name.
 *
 * Sources: the official SDKs of OpenAI, Groq, Together and Mistral, the providers' API pages, and a real llama.cpp
 * server; state 2026-11-20. A server that is not listed is taken for a self-hosted one (vLLM and its like).
 */

/** The differences of one server. */
export interface Dialect {
  /** The name of the output limit. OpenAI's reasoning models refuse the old name. */
  readonly outputLimit: "max_tokens" | "max_completion_tokens";
  readonly seed: "seed" | "random_seed" | undefined;
  readonly hasTopK: boolean;
  readonly hasPenalties: boolean;
  /** `response_format` of type `json_schema`; without it a schema becomes `json_object`. */
  readonly hasJsonSchema: boolean;
  readonly hasReasoningEffort: boolean;
  /** Whether `logprobs` is a boolean beside `top_logprobs`, as at OpenAI. */
  readonly hasLogprobs: boolean;
  /** Whether one request may have several answers (`n`). */
  readonly hasChoices: boolean;
  /** Whether an answer holds the model's thoughts where it has any. */
  readonly hasThoughts: boolean;
  /** Several texts of one message stay parts of an array; else they are joined without a separator. */
  readonly hasContentParts: boolean;
  /** Stop sequences at most. */
  readonly stopsMax: number;
  /** Whether some models refuse sampling settings and want the role `developer` (OpenAI's own). */
  readonly hasReasoningModels: boolean;
  /** The period of the `requests` trio of rate limit headers. */
  readonly requestsPer: "minute" | "day";
  /** Whether `usage.cost` is what was charged, in USD. */
  readonly hasCost: boolean;
}

const SELF_HOSTED: Dialect = {
  outputLimit: "max_tokens",
  seed: "seed",
  hasTopK: true,
  hasPenalties: true,
  hasJsonSchema: true,
  hasReasoningEffort: true,
  hasLogprobs: true,
  hasChoices: true,
  hasThoughts: true,
  // Chat templates that take text join parts with a line break, which changes the prompt (vLLM).
  hasContentParts: false,
  stopsMax: Number.POSITIVE_INFINITY,
  hasReasoningModels: false,
  requestsPer: "minute",
  hasCost: false,
};

/** Servers that are known to take the old name. */
const SELF_HOSTED_NAMES: ReadonlySet<string> = new Set(["vllm", "sglang", "llamacpp"]);

const DIALECTS: ReadonlyMap<string, Dialect> = new Map([
  [
    "openai",
    {
      ...SELF_HOSTED,
      outputLimit: "max_completion_tokens",
      hasTopK: false,
      hasThoughts: false,
      hasContentParts: true,
      stopsMax: 4,
      hasReasoningModels: true,
    },
  ],
  [
    "deepseek",
    {
      ...SELF_HOSTED,
      seed: undefined,
      hasTopK: false,
      hasJsonSchema: false,
      hasReasoningEffort: false,
      hasChoices: false,
    },
  ],
  [
    "groq",
    {
      ...SELF_HOSTED,
      outputLimit: "max_completion_tokens",
      hasTopK: false,
      hasLogprobs: false,
      hasChoices: false,
      hasThoughts: false,
      hasContentParts: true,
      stopsMax: 4,
      requestsPer: "day",
    },
  ],
  ["together", { ...SELF_HOSTED, hasLogprobs: false }], // a number there
  ["fireworks", { ...SELF_HOSTED, hasLogprobs: false }],
  ["openrouter", { ...SELF_HOSTED, hasContentParts: true, hasCost: true }],
  [
    "mistral",
    {
      ...SELF_HOSTED,
      seed: "random_seed",
      hasTopK: false,
      hasReasoningEffort: false,
      hasLogprobs: false,
      hasContentParts: true,
    },
  ],
  ["ollama", { ...SELF_HOSTED, hasTopK: false, hasChoices: false }],
]);

/**
 * The members of a body that limit the output for sure: the dialect's own, and both names where the provider is not known
 * (self-hosted servers take the old one, gateways to OpenAI's models may demand the new one).
 */
export function outputLimits(name: string, maxOutputTokens: number): Readonly<Record<string, number>> {
  const isKnown = DIALECTS.has(name) || SELF_HOSTED_NAMES.has(name);
  const { outputLimit } = dialectOf(name);
  if (isKnown) return { [outputLimit]: maxOutputTokens };
  return { max_tokens: maxOutputTokens, max_completion_tokens: maxOutputTokens };
}

/** The dialect of a provider by its name. */
export function dialectOf(name: string): Dialect {
  return DIALECTS.get(name) ?? SELF_HOSTED;
}

/** How an OpenAI model takes sampling settings. */
export interface OpenaiModel {
  readonly isReasoning: boolean;
  /** `never`: only the default values; `without_reasoning`: when `reasoning_effort` is `none`. */
  readonly sampling: "always" | "without_reasoning" | "never";
  readonly hasStop: boolean;
}

const ANY_MODEL: OpenaiModel = { isReasoning: false, sampling: "always", hasStop: true };

/**
 * The o-series and GPT-5 take default sampling only; GPT-5.1 and later take any when they do not reason.
 * `gpt-5-chat-latest` and its like are not reasoning models.
 */
export function openaiModel(model: string): OpenaiModel {
  const name = model.slice(model.lastIndexOf("/") + 1).replace(/^ft:/, "");
  const series = /^o(\d)/.exec(name);
  if (series !== null) {
    const hasStop = !(name.startsWith("o3") || name.startsWith("o4-mini"));
    return { isReasoning: true, sampling: "never", hasStop };
  }
  const gpt = /^gpt-(\d+)(?:\.(\d+))?/.exec(name);
  if (gpt === null || Number(gpt[1]) < 5 || name.includes("chat")) return ANY_MODEL;
  const isFirst = Number(gpt[1]) === 5 && gpt[2] === undefined;
  return { isReasoning: true, sampling: isFirst ? "never" : "without_reasoning", hasStop: true };
}
