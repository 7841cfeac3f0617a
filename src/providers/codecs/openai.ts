/**
 * The codec of OpenAI's chat completions (`POST {base}/chat/completions`) and of every server that speaks it.
 *
 * Reading an answer, in this order: no JSON -> ambiguous; an `error` inside -> by its own code; then by the
 * `finish_reason` of the choice at index 0 (of several, the first that is an answer; the others are beside it):
 *
 *   stop (or none, or unknown),   text, tool calls or a refusal -> success; nothing at all is ambiguous `empty_output`
 *   tool_calls, function_call
 *   length, model_length          the same, marked `length`; nothing (thoughts took the budget) -> `empty_output`
 *   content_filter                the same, marked; nothing -> permanent `filtered`
 *   error, abort, ...             ambiguous
 *
 * No field is demanded that real servers leave out (`id`, `object`, `logprobs`, `refusal`, `usage`).
 *
 * Hot path: decode of a 700-byte success at most 4 us (bench/parts/decode.ts).
 */
import type { ModelRequest } from "../../work/request.ts";
import { wireAddress } from "../address.ts";
import { openaiMembers } from "../answer_members.ts";
import { brokenOff, cutOff, ended, filtered, type ReadAnswer, severalAnswers } from "../endings.ts";
import { openaiEndpoints } from "../endpoints/openai_endpoints.ts";
import { errorFacts } from "../error_body.ts";
import { encoded, isHtml, leftOf, type RequestTarget, translated } from "../exchange.ts";
import {
  allByIndex,
  answerJson,
  arrayOf,
  firstByIndex,
  nameOf,
  objectOf,
  stringOf,
  type Unchecked,
} from "../json.ts";
import { openaiLimits } from "../limits.ts";
import type { Decoded, Encoded, Provider, ProviderSettings, WireAnswer } from "../provider.ts";
import { itemFailure, refusalInside, refusalOf } from "../refusals.ts";
import { refusalOfDropped } from "../unsupported.ts";
import { openaiUsage } from "../usage.ts";
import { type Dialect, dialectOf, outputLimits } from "./dialects.ts";
import { type GivenResult, givenBody } from "./given_body.ts";
import { chatBody } from "./openai_body.ts";
import { Writing } from "./writing.ts";

/** OpenAI's own hosts, those of its regions included. */
const OPENAI_HOST = /(^|\.)api\.openai\.com$/;

/** A codec for a server that speaks chat completions; its dialect follows from the settings' name. */
export function openaiProvider(settings: ProviderSettings): Provider {
  const dialect = dialectOf(settings.name);
  const credentials: Record<string, string> =
    settings.key === undefined ? {} : { authorization: `Bearer ${settings.key}` };
  const address = wireAddress(settings, credentials);
  const head = { ...address, path: `${address.path}/chat/completions${address.search}` };
  const isOpenai = OPENAI_HOST.test(new URL(address.origin).hostname);
  const limits: Provider["limits"] = (headers) => openaiLimits(headers, dialect.requestsPer);
  return {
    settings,
    endpoint: openaiEndpoints({ settings, address, isOpenai, limits }),
    head: () => ({ origin: head.origin, path: head.path, headers: head.headers }),
    encode: (request, model, isCheckOnly) => {
      const destination = { settings, model };
      return request.openaiBody === undefined
        ? encode(request, destination, dialect, isCheckOnly)
        : encodeGiven(request, destination, givenBody(request, model, dialect, isOpenai), isCheckOnly);
    },
    decode: (answer) => decode(answer, settings.name, dialect.hasCost),
    limits,
  };
}

function encode(
  request: ModelRequest,
  destination: RequestTarget,
  dialect: Dialect,
  isCheckOnly: boolean | undefined,
): Encoded {
  const { settings, model } = destination;
  const read = translated(request, settings.name);
  if ("ok" in read) return read;
  const writing = new Writing(request, settings.name, read.dropped);
  const result = chatBody(request, model, dialect, writing);
  if ("message" in result) return { ok: false, code: result.code, message: result.message };
  const { maxOutputTokens } = request.config;
  if (request.isLimitSure === true && maxOutputTokens !== undefined)
    Object.assign(result.body, outputLimits(settings.name, maxOutputTokens));
  const seedPlace = { name: dialect.seed, depth: 1 } as const;
  const target = { settings, model, inserts: writing.inserts };
  return encoded(result.body, request, result.dropped, target, seedPlace, isCheckOnly);
}

function encodeGiven(
  request: ModelRequest,
  { model, settings }: RequestTarget,
  given: GivenResult,
  isCheckOnly: boolean | undefined,
): Encoded {
  if (!given.ok) return given;
  const left = leftOf(request, given.dropped);
  const refusal = refusalOfDropped(left.dropped, model, settings);
  if (refusal !== undefined) return refusal;
  const body = isCheckOnly === true ? "" : JSON.stringify({ ...given.body, model });
  const { dropped, leavesSchema } = left;
  return leavesSchema === true ? { ok: true, body, dropped, leavesSchema } : { ok: true, body, dropped };
}

function decode(answer: WireAnswer, name: string, hasCost: boolean): Decoded {
  if (answer.status < 200 || answer.status > 299) return refusalOf(name, answer);
  const body = isHtml(answer) ? undefined : objectOf(answerJson(answer));
  if (body === undefined)
    return itemFailure("ambiguous", "invalid_response", `${name} answered no JSON object`);
  const usage = openaiUsage(body["usage"], hasCost);
  const error = body["error"] ?? (body["object"] === "error" ? body : undefined);
  if (error !== undefined) return refusalInside(name, answer, errorFacts(error), usage);
  const choices = arrayOf(body["choices"]);
  if (choices === undefined) {
    return itemFailure("ambiguous", "invalid_response", `${name} answered without choices`, usage);
  }
  const choice = objectOf(firstByIndex(choices));
  const inner = choice?.["error"] ?? undefined;
  if (inner !== undefined) return refusalInside(name, answer, errorFacts(inner), usage);
  const facts = {
    name,
    usage,
    tier: nameOf(body["service_tier"]),
    model: nameOf(body["model"]),
    requestId: nameOf(answer.headers["x-request-id"] ?? body["id"]),
  };
  const first = decodeChoice(choice, facts);
  if (choices.length < 2) return first;
  const [, ...others] = allByIndex(choices);
  return severalAnswers([first, ...others.map((one) => decodeChoice(objectOf(one), facts))]);
}

function decodeChoice(choice: Unchecked | undefined, facts: Omit<ReadAnswer, "text" | "members">): Decoded {
  const message = objectOf(choice?.["message"]);
  const { name, usage, tier, model, requestId } = facts;
  const text = textOf(message?.["content"]);
  const members = openaiMembers(choice, message);
  return outcomeOf(choice?.["finish_reason"], { name, text, members, usage, tier, model, requestId });
}

function outcomeOf(reason: unknown, answer: ReadAnswer): Decoded {
  switch (reason) {
    case "length":
    case "model_length": // Mistral
      return cutOff(answer);
    case "content_filter":
      return filtered(answer);
    case "error":
    case "abort": // vLLM
    case "insufficient_system_resource": // DeepSeek
      return brokenOff(answer);
    default:
      return ended(answer);
  }
}

/** Text is a string, or at Mistral a list of chunks of which the thinking ones are not the answer. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  return (arrayOf(content) ?? [])
    .map((part) => objectOf(part))
    .map((part) => (part?.["type"] === "text" ? (stringOf(part["text"]) ?? "") : ""))
    .join("");
}
