/**
 * A provider that is a function of the caller: `(request, { signal }) => answer`.
 *
 *   item -> request as JSON (`encode`, in any thread) -> function on the main thread -> answer as JSON -> `decode`
 *
 * How a call of the function ends, and what that means (docs/guide/own-provider.md):
 *
 *   { text, ... }                            success; no text, tool calls or refusal is `empty_output`
 *   anything else                            ambiguous `invalid_response`
 *   throws, retryable true or retryAfterMs   refused: no work was done, repeating is free; with a wait, a rate limit
 *   throws, retryable false                  permanent: the item's own fault
 *   throws, numeric status (as SDKs do)      as an HTTP answer of that status (refusals.ts)
 *   throws anything else                     ambiguous: like a 5xx, it may have been answered and billed
 *
 * `function_transport.ts` calls it and writes what it throws in the form that `decode` reads.
 */
import { isEmptyList } from "../work/json.ts";
import type { AnswerMembers, FinishReason, Usage } from "../work/outcome.ts";
import type { GenerationConfig, JsonValue, ModelRequest } from "../work/request.ts";
import { misspeltInMessages, misspeltMember } from "./chat_members.ts";
import { type ChatTools, putChatTools } from "./codecs/chat_content.ts";
import { chatMessages } from "./codecs/openai_body.ts";
import { Writing } from "./codecs/writing.ts";
import { brokenOff, cutOff, ended, filtered, type ReadAnswer } from "./endings.ts";
import { type EmbedFunction, functionEmbeddings } from "./endpoints/function_embeddings.ts";
import { arrayOf, countOf, objectOf, parseJson, stringOf, type Unchecked } from "./json.ts";
import { withoutKeys } from "./key_text.ts";
import type { Decoded, Encoded, Provider, ProviderSettings, WireAnswer } from "./provider.ts";
import { itemFailure, refusalThrown } from "./refusals.ts";
import { refusalWaitMs } from "./retry_after.ts";
import { candidatesName, refusalOfDropped, untranslated } from "./unsupported.ts";
import { bounded } from "./usage.ts";

/** A message in OpenAI's form; of an item in OpenAI's layout unchanged. */
export interface FunctionMessage {
  readonly role: string;
  /** A text, or OpenAI's content parts where the item has several texts or more than text in one message. */
  readonly content: JsonValue;
  readonly [member: string]: JsonValue;
}

/** One item, as a provider function receives it. A fresh object for each call. */
export interface FunctionRequest {
  /** Without the provider's name: `small` of `mine:small`. */
  readonly model: string;
  /** The system instruction first, if the item has one. */
  readonly messages: readonly FunctionMessage[];
  /** What the item asks for. Under a cost cap, `maxOutputTokens` is always set, and the function must obey it. */
  readonly settings: GenerationConfig;
  /** Members of a body in OpenAI's layout that `settings` does not have, under their own names: `tools`, `user`, ... */
  readonly more?: { readonly [name: string]: JsonValue };
}

/** What a provider function returns. */
export interface FunctionAnswer {
  /** May be empty or absent only beside `toolCalls` or a `refusal`. At most 32 MiB for the whole answer as JSON. */
  readonly text?: string;
  /** Whole numbers from 0. Absent: estimated from the texts. */
  readonly usage?: {
    /** All input tokens, cached ones included. */
    readonly inputTokens: number;
    /** All output tokens, reasoning included. */
    readonly outputTokens: number;
    readonly cachedTokens?: number;
    readonly cacheWriteTokens?: number;
    readonly reasoningTokens?: number;
    /** What the call cost, in USD; it is used in place of a computed price. */
    readonly chargedUsd?: number;
  };
  /** Default: `tool_calls` with tool calls, `refusal` with a refusal, otherwise `stop`. */
  readonly finishReason?: "stop" | FinishReason;
  /** In OpenAI's form: `{ id, type: "function", function: { name, arguments } }`. */
  readonly toolCalls?: readonly JsonValue[];
  /** The model's words for not answering. */
  readonly refusal?: string;
  /** The model's thoughts. */
  readonly reasoning?: string;
}

/**
 * Answers one item. Called on the main thread, concurrently up to the limits of its provider, and again for each attempt.
 * `signal` is aborted when nobody waits for the answer any more: at the deadline, a time-out or a stop. A function that
 * ignores it runs on unobserved, and counts against no limit. An error that it throws may have `retryable`, `retryAfterMs`
 * (milliseconds) or `status`; see the guide.
 */
export interface ProviderFunction {
  (
    request: FunctionRequest,
    options: { readonly signal: AbortSignal },
  ): FunctionAnswer | PromiseLike<FunctionAnswer>;
  /** Embeds the texts of items of the kind `embedding`. Absent: they are refused, before anything is called. */
  readonly embed?: EmbedFunction;
}

/** The origin under which the transport finds the function of a provider. */
export function functionOrigin(name: string): string {
  return `function:${name}`;
}

/** Characters of a function's own words that are shown. */
const SAID_CHARS_MAX = 200;
const NONE: readonly string[] = [];

/** The codec between items and a function. */
export function functionProvider(settings: ProviderSettings): Provider {
  const head = { origin: functionOrigin(settings.name), path: "", headers: {} };
  const embeddings =
    settings.embeds === true
      ? functionEmbeddings(settings, (answer) => decode(answer, settings.name))
      : undefined;
  return {
    settings,
    head: () => head,
    encode: (request, model, isCheckOnly) => encode(request, model, settings, isCheckOnly === true),
    decode: (answer) => decode(answer, settings.name),
    limits: () => undefined,
    endpoint: (kind) => (kind === "embedding" ? embeddings : undefined),
  };
}

function encode(
  request: ModelRequest,
  model: string,
  settings: ProviderSettings,
  isCheckOnly: boolean,
): Encoded {
  const { openaiBody, unknownFields, config } = request;
  if (config.responseSchema !== undefined && config.responseJsonSchema !== undefined)
    return invalid("response_schema and response_json_schema are the same field, set only one");
  const { candidateCount, ...own } = config;
  if (candidateCount !== undefined)
    return {
      ok: false,
      code: "unsupported_request",
      message: `${candidatesName(request)}: a function has one answer`,
    };
  if (openaiBody === undefined) return encodeOwn({ ...request, config: own }, model, settings, isCheckOnly);
  const { messages = [] } = openaiBody;
  const misspelt = misspeltMember(unknownFields, false) ?? misspeltInMessages(messages, false);
  if (misspelt !== undefined) return invalid(misspelt);
  const others = [...untranslated(request), ...TOOL_MEMBERS.filter((name) => asksFor(openaiBody[name]))];
  const more = others.length === 0 ? undefined : pick(openaiBody, others);
  const body = isCheckOnly ? "" : JSON.stringify({ model, messages, settings: own, more });
  return { ok: true, body, dropped: NONE };
}

/** Members that `settings` does not have, and the neutral request has. */
const TOOL_MEMBERS = ["tools", "tool_choice", "parallel_tool_calls"] as const;

function asksFor(value: JsonValue | undefined): boolean {
  return value !== undefined && value !== null && !isEmptyList(value);
}

/** Messages and functions as OpenAI has them. */
function encodeOwn(
  request: ModelRequest,
  model: string,
  settings: ProviderSettings,
  isCheckOnly: boolean,
): Encoded {
  const { unknownFields, config } = request;
  const writing = new Writing(request, settings.name, [...unknownFields]);
  const messages = chatMessages(request, { hasContentParts: true }, undefined, writing);
  const more: ChatTools = {};
  const fault = writing.refused ?? putChatTools(more, request, "openai");
  if (fault !== undefined) return { ok: false, code: "unsupported_request", message: fault };
  if (request.safetySettings !== undefined) writing.drop("safety_settings");
  if (request.cachedContent !== undefined) writing.drop("cached_content");
  const refusal = refusalOfDropped(writing.dropped, model, settings);
  if (refusal !== undefined) return refusal;
  const hasMore = Object.keys(more).length > 0;
  const whole = { model, messages, settings: config, ...(hasMore ? { more } : {}) };
  const body = isCheckOnly ? "" : JSON.stringify(whole);
  const { dropped, inserts } = writing;
  return { ok: true, body, dropped, ...(inserts.length === 0 ? {} : { inserts }) };
}

function invalid(message: string): Encoded {
  return { ok: false, code: "invalid_config", message };
}

function pick(body: Readonly<Record<string, JsonValue>>, names: readonly string[]): object {
  const found = names.flatMap((name) => (body[name] === undefined ? [] : [[name, body[name]] as const]));
  return Object.fromEntries(found);
}

function decode(answer: WireAnswer, name: string): Decoded {
  const body = parseJson(answer.body);
  if (answer.status === 200) return read(body, name);
  const unwritable = stringOf(objectOf(body)?.["unwritable"]);
  if (unwritable !== undefined) return itemFailure("ambiguous", "invalid_response", lost(unwritable, name));
  const thrown = objectOf(objectOf(body)?.["thrown"]);
  return thrown === undefined ? refusalThrown(name, answer) : understood(thrown, answer, name);
}

function read(value: unknown, name: string): Decoded {
  const answer = objectOf(value);
  const isAnswer =
    answer !== undefined && ["text", "toolCalls", "refusal"].some((member) => Object.hasOwn(answer, member));
  if (!isAnswer) return itemFailure("ambiguous", "invalid_response", nonsense(value, name));
  const usage = usageOf(answer["usage"]);
  const fault = faultOf(answer);
  if (fault !== undefined) {
    const message = `the function of provider "${name}" returned ${fault}`;
    return itemFailure("ambiguous", "invalid_response", message, usage);
  }
  const given: ReadAnswer = {
    name,
    text: whole(answer["text"]),
    members: membersOf(answer),
    usage,
    tier: undefined,
  };
  switch (answer["finishReason"]) {
    case "length":
      return cutOff(given);
    case "content_filter":
      return filtered(given);
    case "pause":
      return brokenOff(given);
    default:
      return ended(given);
  }
}

const TEXTS = ["text", "refusal", "reasoning"] as const;
const FINISHES: readonly unknown[] = ["stop", "length", "tool_calls", "content_filter", "refusal", "pause"];

/** The first member that is not what an answer has, in words; its value is not shown, because it may be anybody's text. */
function faultOf(answer: Unchecked): string | undefined {
  const odd = TEXTS.find((member) => typeof (answer[member] ?? "") !== "string");
  if (odd !== undefined) return `${odd} that is not a string (${kindOf(answer[odd])})`;
  if (!FINISHES.includes(answer["finishReason"] ?? "stop"))
    return `a finishReason other than ${FINISHES.slice(0, 5).join(", ")}`;
  const calls = answer["toolCalls"] ?? NONE;
  if (!Array.isArray(calls)) return `toolCalls that are not a list (${kindOf(calls)})`;
  const broken = calls.findIndex((call) => !isToolCall(objectOf(call)));
  return broken < 0
    ? undefined
    : `toolCalls[${broken}] without { id, function: { name, arguments } }, all strings`;
}

/** Calls of other types than functions are their caller's. */
function isToolCall(call: Unchecked | undefined): boolean {
  if (typeof call?.["id"] !== "string") return false;
  if ((call["type"] ?? "function") !== "function") return true;
  const called = objectOf(call["function"]);
  return typeof called?.["name"] === "string" && typeof called["arguments"] === "string";
}

/** Half of a pair, as of a text that was cut within an emoji, is not valid Unicode. */
function whole(text: unknown): string {
  return (stringOf(text) ?? "").replace(/\p{Surrogate}/gu, "\uFFFD");
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  return Array.isArray(value) ? "a list" : typeof value;
}

/** What was returned instead of an answer, only by its kind: its texts may be anybody's. */
function nonsense(value: unknown, name: string): string {
  const object = objectOf(value);
  const members = Object.keys(object ?? {}).slice(0, 5);
  const found =
    object === undefined
      ? kindOf(value)
      : `an object with ${members.length === 0 ? "nothing" : members.join(", ")}`;
  return `the function of provider "${name}" returned ${found}; expected { text, usage?, finishReason?, toolCalls? }`;
}

/** What was returned cannot be written as JSON. */
function lost(fault: string, name: string): string {
  const words = `the function of provider "${name}" returned what JSON cannot hold`;
  return fault === "" ? words : `${words}: ${said(fault).slice(0, SAID_CHARS_MAX)}`;
}

function membersOf(answer: Unchecked): AnswerMembers | undefined {
  const calls = arrayOf(answer["toolCalls"]) ?? NONE;
  const refusal = whole(answer["refusal"]);
  const reasoning = whole(answer["reasoning"]);
  if (calls.length === 0 && refusal === "" && reasoning === "") return undefined;
  return {
    ...(calls.length === 0 ? {} : { tool_calls: calls as readonly JsonValue[] }), // they were read from JSON
    ...(refusal === "" ? {} : { refusal }),
    ...(reasoning === "" ? {} : { reasoning }),
  };
}

/** Undefined where a total is missing; what cannot be true is sorted out for all providers by `usage.ts`. */
function usageOf(value: unknown): Usage | undefined {
  const usage = objectOf(value);
  const [input, output] = [countOf(usage?.["inputTokens"]), countOf(usage?.["outputTokens"])];
  if (usage === undefined || input === undefined || output === undefined) return undefined;
  const cached = countOf(usage["cachedTokens"]) ?? 0;
  const written = countOf(usage["cacheWriteTokens"]) ?? 0;
  const counts = bounded(input, cached, written, output, countOf(usage["reasoningTokens"]) ?? 0);
  const charged = usage["chargedUsd"];
  if (charged === undefined) return counts;
  return { ...counts, chargedUsd: typeof charged === "number" ? charged : Number.NaN }; // NaN is null in JSON
}

/** What an error of the function means: its own marks first, then the status of an HTTP answer that it passes on. */
function understood(thrown: Unchecked, answer: WireAnswer, name: string): Decoded {
  const { retryable } = thrown;
  const waitMs = retryable === false ? undefined : waitOf(thrown["retryAfterMs"]);
  const base = thrown["hasStatus"] === true ? refusalThrown(name, answer) : unmarked(thrown, name);
  if (retryable === false) {
    if (base.class === "permanent") return base;
    return { class: "permanent", code: "invalid_request", message: base.message, scope: "item" };
  }
  if (retryable !== true && waitMs === undefined) return base;
  const { code, message, isOverload } = base;
  return {
    class: "refused",
    code: waitMs !== undefined && code === "provider_error" ? "rate_limited" : code,
    message,
    scope: "item",
    ...(waitMs === undefined ? {} : { retryAfterMs: waitMs, isRateLimit: isOverload !== true }),
    ...(isOverload === true ? { isOverload } : {}),
  };
}

function unmarked(thrown: Unchecked, name: string): Exclude<Decoded, { readonly class: "success" }> {
  const words = said(stringOf(thrown["message"]) ?? "");
  const what = [stringOf(thrown["name"]) ?? "an error", words].filter((text) => text !== "").join(": ");
  const message = `the function of provider "${name}" threw ${what.slice(0, SAID_CHARS_MAX)}`;
  return itemFailure("ambiguous", "provider_error", message);
}

/** Words of a function on one line, without what looks like a key. */
function said(words: string): string {
  return withoutKeys(words.replace(/[\p{Cc}\s]+/gu, " "));
}

function waitOf(value: unknown): number | undefined {
  if (typeof value !== "number" || !(value > 0) || !Number.isFinite(value)) return undefined;
  return refusalWaitMs(value);
}
