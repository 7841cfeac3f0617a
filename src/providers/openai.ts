/**
 * The codec of OpenAI's chat completions (`POST {base}/chat/completions`) and of every server that speaks it.
 *
 * Reading an answer, in this order: no JSON -> ambiguous; an `error` inside -> by its own code; then by the first
 * choice's `finish_reason`:
 *
 *   stop (or none, or unknown)    text -> success; none -> a refusal is `filtered`, tool calls are unsupported,
 *                                 nothing at all is ambiguous `empty_output`
 *   length, model_length          text -> success marked `length`; none (thoughts took the budget) -> `empty_output`
 *   content_filter                permanent `filtered`
 *   tool_calls, function_call     permanent `unsupported_request`
 *   error, abort, ...             ambiguous
 *
 * No field is demanded that real servers leave out (`id`, `object`, `logprobs`, `refusal`, `usage`).
 *
 * Hot path: decode of a 700-byte success at most 4 us (bench/providers.ts).
 */
import type { Usage } from "../work/outcome.ts";
import type { ModelRequest } from "../work/request.ts";
import { wireAddress } from "./address.ts";
import { dialectOf } from "./dialects.ts";
import { brokenOff, cutOff, declined, filtered, toolCall, withoutText } from "./endings.ts";
import { errorFacts } from "./error_body.ts";
import { encoded, isHtml, success, untranslatable } from "./exchange.ts";
import { arrayOf, objectOf, parseJson, stringOf, type Unchecked } from "./json.ts";
import { openaiLimits } from "./limits.ts";
import { chatBody, givenProblem } from "./openai_body.ts";
import type { Decoded, Encoded, Provider, ProviderSettings, WireAnswer } from "./provider.ts";
import { itemFailure, refusalInside, refusalOf } from "./refusals.ts";
import { openaiUsage } from "./usage.ts";

/** A codec for a server that speaks chat completions; its dialect follows from the settings' name. */
export function openaiProvider(settings: ProviderSettings): Provider {
  const dialect = dialectOf(settings.name);
  const credentials: Record<string, string> =
    settings.key === undefined ? {} : { authorization: `Bearer ${settings.key}` };
  const address = wireAddress(settings, credentials);
  const head = { ...address, path: `${address.path}/chat/completions${address.search}` };
  return {
    settings,
    head: () => ({ origin: head.origin, path: head.path, headers: head.headers }),
    encode: (request, model, isCheckOnly) => encode(request, model, settings, isCheckOnly),
    decode: (answer) => decode(answer, settings.name, dialect.hasCost),
    limits: (headers) => openaiLimits(headers, dialect.requestsPer),
  };
}

function encode(
  request: ModelRequest,
  model: string,
  settings: ProviderSettings,
  isCheckOnly = false,
): Encoded {
  if (request.openaiBody !== undefined) {
    const problem = givenProblem(request.openaiBody);
    if (problem !== undefined) return { ok: false, code: "unsupported_request", message: problem };
    const body = isCheckOnly ? "" : JSON.stringify({ ...request.openaiBody, model });
    return { ok: true, body, dropped: [] };
  }
  const problem = untranslatable(request);
  if (problem !== undefined) return { ok: false, code: "unsupported_request", message: problem };
  const dialect = dialectOf(settings.name);
  const result = chatBody(request, model, dialect);
  if ("message" in result) return { ok: false, code: "invalid_config", message: result.message };
  const seedPlace = { name: dialect.seed, depth: 1 } as const;
  return encoded(result.body, request, result.dropped, settings, seedPlace, isCheckOnly);
}

function decode(answer: WireAnswer, name: string, hasCost: boolean): Decoded {
  if (answer.status < 200 || answer.status > 299) return refusalOf(name, answer);
  const body = isHtml(answer) ? undefined : objectOf(parseJson(answer.body));
  if (body === undefined)
    return itemFailure("ambiguous", "invalid_response", `${name} answered no JSON object`);
  const usage = openaiUsage(body["usage"], hasCost);
  const error = body["error"] ?? (body["object"] === "error" ? body : undefined);
  if (error !== undefined) return refusalInside(name, answer, errorFacts(error), usage);
  const choices = arrayOf(body["choices"]);
  if (choices === undefined) {
    return itemFailure("ambiguous", "invalid_response", `${name} answered without choices`, usage);
  }
  const choice = objectOf(choices[0]);
  const inner = choice?.["error"] ?? undefined;
  if (inner !== undefined) return refusalInside(name, answer, errorFacts(inner), usage);
  const message = objectOf(choice?.["message"]);
  return outcomeOf(name, choice?.["finish_reason"], message, usage, stringOf(body["service_tier"]));
}

function outcomeOf(
  name: string,
  reason: unknown,
  message: Unchecked | undefined,
  usage: Usage | undefined,
  tier: string | undefined,
): Decoded {
  const text = textOf(message?.["content"]);
  switch (reason) {
    case "length":
    case "model_length": // Mistral
      return cutOff(name, text, usage, tier);
    case "content_filter":
      return filtered(name, usage);
    case "tool_calls":
    case "function_call":
      return toolCall(name, usage);
    case "error":
    case "abort": // vLLM
    case "insufficient_system_resource": // DeepSeek
      return brokenOff(name, usage);
    default:
      if (text !== "") return success(text, "stop", usage, tier);
      return nothing(name, message, usage);
  }
}

function nothing(name: string, message: Unchecked | undefined, usage: Usage | undefined): Decoded {
  if (textOf(message?.["refusal"]) !== "") {
    return declined(name, usage);
  }
  if ((arrayOf(message?.["tool_calls"])?.length ?? 0) > 0) {
    return toolCall(name, usage);
  }
  return withoutText(name, usage);
}

/** Text is a string, or at Mistral a list of chunks of which the thinking ones are not the answer. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  return (arrayOf(content) ?? [])
    .map((part) => objectOf(part))
    .map((part) => (part?.["type"] === "text" ? (stringOf(part["text"]) ?? "") : ""))
    .join("");
}
