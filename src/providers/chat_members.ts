/**
 * The members of a chat completion's body: those that OpenAI documents, and some that other servers have besides.
 *
 * A body in OpenAI's layout is sent as given to every server of that protocol. OpenAI refuses names that it does not
 * know, so there a line with one fails before it is sent. Other servers have names of their own, and ignore those that
 * they do not know: there a name counts as misspelt when it is near a documented one and not among theirs.
 *
 * Sources: OpenAI's API file (`ChatCompletionCreateParams` of openai 6); the API pages of vLLM, SGLang, llama.cpp,
 * Ollama, OpenRouter, Together, Fireworks, Groq, Mistral and DeepSeek; state 2026-11-22.
 */
import { nearest } from "../nearest.ts";

const DOCUMENTED: ReadonlySet<string> = new Set([
  "audio",
  "frequency_penalty",
  "function_call",
  "functions",
  "logit_bias",
  "logprobs",
  "max_completion_tokens",
  "max_tokens",
  "messages",
  "metadata",
  "modalities",
  "model",
  "moderation",
  "n",
  "parallel_tool_calls",
  "prediction",
  "presence_penalty",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "reasoning_effort",
  "response_format",
  "safety_identifier",
  "seed",
  "service_tier",
  "stop",
  "store",
  "stream",
  "stream_options",
  "temperature",
  "tool_choice",
  "tools",
  "top_logprobs",
  "top_p",
  "user",
  "verbosity",
  "web_search_options",
]);

/** Names of other servers that are near a documented one, or that all of them have. */
const OTHERS: ReadonlySet<string> = new Set([
  "documents",
  "extra_body",
  "format",
  "grammar",
  "min_p",
  "min_tokens",
  "models",
  "options",
  "random_seed",
  "reasoning",
  "repetition_penalty",
  "route",
  "stop_token_ids",
  "top_a",
  "top_k",
  "top_n",
  "top_n_sigma",
  "typical_p",
]);

/** Undefined when all names may be sent; else what is wrong with the first that may not. */
export function misspeltMember(names: readonly string[], isOpenai: boolean): string | undefined {
  for (const name of names) {
    if (DOCUMENTED.has(name) || (!isOpenai && OTHERS.has(name))) continue;
    if (isOpenai && name === "top_k") continue; // it shapes sampling: left out with a warning
    const near = nearest(name, DOCUMENTED);
    if (near === undefined && !isOpenai) continue;
    const shown = JSON.stringify(name.length <= 64 ? name : `${name.slice(0, 64)}...`);
    const hint = near === undefined ? " at api.openai.com" : `; did you mean "${near}"?`;
    return `${shown} is not a known member of body${hint}`;
  }
  return undefined;
}
