/**
 * The members of a chat completion's body: those that OpenAI documents, and some that other servers have besides.
 *
 * A body in OpenAI's layout is sent unchanged to every server of that protocol. OpenAI refuses names that it does not
 * know, so there a line with one fails before it is sent. Other servers have names of their own, and ignore those that
 * they do not know: there a name counts as misspelt when it is near a documented one and not among theirs.
 *
 * Sources: OpenAI's API file (`ChatCompletionCreateParams` of openai 6); the API pages of vLLM, SGLang, llama.cpp,
 * Ollama, OpenRouter, Together, Fireworks, Groq, Mistral and DeepSeek; state 2026-11-22.
 */
import { nearest } from "../nearest.ts";
import {
  MESSAGE_MEMBERS,
  MESSAGE_MEMBERS_ELSEWHERE,
  PART_MEMBERS,
  PART_MEMBERS_ELSEWHERE,
} from "../work/chat_message.ts";
import { isObject } from "../work/json.ts";

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
  "response_format.json_schema.description",
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
  "cache_control",
  "documents",
  "format",
  "grammar",
  "min_p",
  "min_tokens",
  "models",
  "options",
  "random_seed",
  "reasoning",
  "repetition_penalty",
  "response_format.schema",
  "route",
  "stop_token_ids",
  "top_a",
  "top_k",
  "top_n",
  "top_n_sigma",
  "typical_p",
]);

/**
 * The same of the members of messages and of the parts of their content; what is not a message is left to the server. Hot: one
 * call for each request in OpenAI's layout.
 */
export function misspeltInMessages(messages: unknown, isOpenai: boolean): string | undefined {
  if (!Array.isArray(messages)) return undefined;
  for (const [index, message] of messages.entries()) {
    const where = `messages[${index}]`;
    const own = unknownIn(message, where, isOpenai, MESSAGE_MEMBERS, MESSAGE_MEMBERS_ELSEWHERE);
    if (own !== undefined) return own;
    const content: unknown = isObject(message) ? message["content"] : undefined;
    if (!Array.isArray(content)) continue;
    for (const [part, value] of content.entries()) {
      const fault = unknownIn(
        value,
        `${where}.content[${part}]`,
        isOpenai,
        PART_MEMBERS,
        PART_MEMBERS_ELSEWHERE,
      );
      if (fault !== undefined) return fault;
    }
  }
  return undefined;
}

function unknownIn(
  value: unknown,
  where: string,
  isOpenai: boolean,
  documented: ReadonlySet<string>,
  others: ReadonlySet<string>,
): string | undefined {
  if (!isObject(value)) return undefined;
  for (const name in value) {
    if (documented.has(name) || (!isOpenai && others.has(name))) continue;
    const near = nearest(name, documented);
    if (near === undefined && !isOpenai) continue;
    const hint = near === undefined ? " at api.openai.com" : `; did you mean "${near}"?`;
    return `${shownName(name)} is not a known member of ${where}${hint}`;
  }
  return undefined;
}

function shownName(name: string): string {
  return JSON.stringify(name.length <= 64 ? name : `${name.slice(0, 64)}...`);
}

/** Whether some server has a member of this name. */
export function isKnownMember(name: string): boolean {
  return DOCUMENTED.has(name) || OTHERS.has(name);
}

/** Undefined when all names may be sent; else what is wrong with the first that may not. */
export function misspeltMember(names: readonly string[], isOpenai: boolean): string | undefined {
  for (const name of names) {
    if (DOCUMENTED.has(name) || (!isOpenai && OTHERS.has(name))) continue;
    if (isOpenai && name === "top_k") continue; // it shapes sampling: left out with a warning
    const near = nearest(name, DOCUMENTED);
    if (near === undefined && !isOpenai) continue;
    const hint = near === undefined ? " at api.openai.com" : `; did you mean "${near}"?`;
    return `${shownName(name)} is not a known member of body${hint}`;
  }
  return undefined;
}
