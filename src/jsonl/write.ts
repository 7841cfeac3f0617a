/**
 * Output lines: one per accepted key, success or error, each with its newline (interface 2.6, `work/item.ts`).
 *
 *   {"key":K,"output":{"type":"text","text":T},"finish_reason":F,...}     how it ended, and what arrived with the text
 *   {"key":K,"output":{"type":"embedding","embedding":[...]},...}         or `embeddings`, of several inputs; or of base64
 *   {"key":K,"output":{"type":"moderation","results":[...]},...}
 *   {"key":K,"output":{...},"parsed":P,...}                               of an answer that fits its schema
 *   {"key":K,"output":null,"error":{...},...}
 *   {"key":null,"line":N,"output":null,"error":{...}}                     the input line's key could not be read
 *
 * `"cached":true` follows where the answer is one to the same request before: its `usage` is that of the answer, and its `cost` is 0.
 * After them, of a line for which requests were sent: `model`, `usage`, `cost`, `latency_ms`, `late`, `attempts`, `provider_request_id`;
 * `model` also of one that was held and ended for that.
 * At the end `"warnings":[...]`, when something was left out of the request or changed in it, and `"body"`, the provider's own bytes, where
 * the caller names it. Lines of earlier versions have
 * what arrived with the text inside `output`, and only `model` and `warnings` after it.
 *
 * Keys are passed as JSON string literals, made once where the line was parsed. Hot path: one call per item (`bench/parts/write.ts`).
 */
import type { FailureCode } from "../errors.ts";
import type { OutputLine } from "../work/item.ts";
import { isObject, type Json, type JsonObject, jsonOf } from "../work/json.ts";
import {
  type AnswerMembers,
  type AttemptFacts,
  type Failure,
  type FinishReason,
  NO_USAGE,
  type TextOutput,
  valueText,
  type WrittenOutput,
  type WrittenValue,
} from "../work/outcome.ts";
import { asOwnLine, bodyJson } from "./body_lines.ts";
import { asBuffer } from "./lines.ts";

export { wholeLinesEnd } from "./lines.ts";

/** Units that JSON escapes (quote, backslash, those below the space), and surrogates, of which lone ones are escaped: all but these. */
const ESCAPED = /[^ !#-[\]-\ud7ff\ue000-\uffff]/;

/** What all requests for an item took. */
export interface LineUsage {
  /** Cached and written ones included. */
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  /** Reasoning included. */
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly listUsd: number;
  readonly billedUsd: number;
  readonly ambiguousUsd: number;
  /** Whether tokens were counted here because the provider did not count them, or the price is not known for sure. */
  readonly isEstimated: boolean;
}

/** What a line says of the requests for its item. */
export interface LineFacts {
  /** Absent when no request was sent. */
  readonly used?: LineUsage | undefined;
  /** The item's own, in JSON; empty text without any. */
  readonly metadata?: string;
  /** The source of its price; null when it is not known. */
  readonly priceVersion: string | null;
  /** Of the last request; absent without one in this process. */
  readonly last?: AttemptFacts | undefined;
  /** `<provider>:<name>` of the model that was requested. */
  readonly requestedModel?: string;
  /** Whether the answer is an earlier one to the same request; `used` is what that took, for nothing. */
  readonly isCached?: boolean;
}

/** An answer as its line has it. */
export interface LineAnswer {
  readonly output: TextOutput | WrittenOutput;
  readonly finish: FinishReason;
  readonly members: AnswerMembers | undefined;
  /** JSON on one line, of an answer that was checked against a schema. */
  readonly parsed?: string | undefined;
  readonly attempts: number;
}

/** A line, or its parts: a long value, only of ASCII, is copied once less if nobody puts the line together before it is written. */
export type LineText =
  | string
  | { readonly before: string; readonly value: WrittenValue; readonly after: string };

/** What recovery needs to know of an output line. */
export interface ReadOutput {
  readonly key: string | null;
  /** The input line it answers, where it says so: beside a null key, or in its error. */
  readonly line?: number;
  /** Whether it holds an answer, not an error. */
  readonly ok: boolean;
  /** The model that answered, as the line names it. */
  readonly model?: string;
  readonly errorCode?: FailureCode;
  /** Of an error: the HTTP status of the last answer. */
  readonly providerStatus?: number;
  /** Of an answer: UTF-16 units of its text and of what arrived with it. */
  readonly textChars?: number;
  /** What its item took, where the line says so in numbers that can be true. */
  readonly used?: LineUsage;
  /** Of an answer that was cut at its limit; absent for others, and in other formats than perigee's own. */
  readonly isCut?: true;
  /** The provider's body of an answer, where the line has it. */
  readonly body?: JsonObject;
  /** Its warnings as JSON; absent without any. */
  readonly warnings?: string;
  /** Of an error: requests that may have been billed without an answer. */
  readonly ambiguousAttempts?: number;
}

/**
 * The line of an answered item, in parts if it has one embedding. `keyJson` is the key as a JSON string literal, as text or in UTF-8; `warnings` are a list
 * in JSON, or empty.
 */
export function completedLine(
  keyJson: string | Uint8Array,
  { output, finish, members, parsed, attempts }: LineAnswer,
  facts: LineFacts,
  warnings = "",
  fields?: LineFields,
): LineText {
  const isText = output.type === "text";
  const text = isText ? `{"type":"text","text":${textLiteral(output.text)}}` : outputJson(output);
  const ending = isText ? `,"finish_reason":"${finish}"${membersOf(members)}` : "";
  const all = `${ending}${factsOf(facts, attempts)}`;
  const beside = `${trimmed(all, fields)}${metadataOf(facts, fields)}`;
  const warned = warnings === "" ? "" : `,"warnings":${warnings}`;
  const sent = facts.last?.body;
  const body = sent === undefined ? "" : `,"body":${bodyJson(sent)}`;
  const json = parsed === undefined || fields?.has("parsed") === false ? "" : `,"parsed":${parsed}`;
  const key = `{"key":${literal(keyJson)},"output":`;
  const after = `${json}${beside}${warned}${body}}\n`;
  if (typeof text === "string") return `${key}${text}${after}`;
  return { before: `${key}{"type":"embedding","embedding":`, value: text.embedding, after: `}${after}` };
}

/** The line as one text. */
export const wholeLine = (line: LineText): string =>
  typeof line === "string" ? line : line.before + valueText(line.value) + line.after;

/** One input has one embedding; several have a list. */
function outputJson({ type, values }: WrittenOutput): string | { readonly embedding: WrittenValue } {
  if (type === "moderation") return `{"type":"moderation","results":[${values.map(valueText).join(",")}]}`;
  const [first] = values;
  if (values.length === 1 && first !== undefined) return { embedding: first };
  return `{"type":"embedding","embeddings":[${values.map(valueText).join(",")}]}`;
}

/** Names of the members that are written; undefined for all. */
type LineFields = ReadonlySet<string> | undefined;

/** The members in `json`, each after a comma, that have these names. */
function trimmed(json: string, fields: LineFields): string {
  if (fields === undefined || json === "") return json;
  const all = JSON.parse(`{${json.slice(1)}}`) as JsonObject;
  return Object.entries(all)
    .map(([name, value]) => (fields.has(name) ? memberOf(name, value) : ""))
    .join("");
}

function membersOf(members: AnswerMembers | undefined): string {
  if (members === undefined) return "";
  const { tool_calls, refusal, reasoning, logprobs, annotations, other_candidates } = members;
  return (
    memberOf("tool_calls", tool_calls) +
    memberOf("refusal", refusal) +
    memberOf("reasoning", reasoning) +
    memberOf("logprobs", logprobs) +
    memberOf("annotations", annotations) +
    memberOf("other_candidates", other_candidates)
  );
}

function memberOf(name: string, value: unknown): string {
  if (value === undefined) return "";
  const json = jsonOf(value);
  return json === undefined ? "" : `,"${name}":${json}`;
}

/** As in the input, byte by byte but for spaces. */
function metadataOf({ metadata = "" }: LineFacts, fields: LineFields): string {
  return metadata === "" || fields?.has("metadata") === false ? "" : `,"metadata":${metadata}`;
}

/** `attempts` is absent where the line has it in its error. */
function factsOf(
  { used, priceVersion, last, requestedModel, isCached }: LineFacts,
  attempts?: number,
): string {
  const model = requestedModel === undefined ? "" : `,"model":${textLiteral(modelOf(requestedModel, last))}`;
  if (used === undefined) return model;
  const estimated = used.isEstimated || used.ambiguousUsd > 0 ? ',"is_estimated":true' : "";
  const usage = `{"input_tokens":${used.inputTokens},"cached_tokens":${used.cachedTokens},"cache_write_tokens":${used.cacheWriteTokens},"output_tokens":${used.outputTokens},"reasoning_tokens":${used.reasoningTokens}}`;
  const tier = last?.servedTier === undefined ? "null" : textLiteral(last.servedTier);
  const version = priceVersion === null ? "null" : textLiteral(priceVersion);
  const cost = `{"list_usd":${usdText(used.listUsd)},"billed_usd":${usdText(used.billedUsd)},"ambiguous_usd":${usdText(used.ambiguousUsd)},"tier":${tier},"price_version":${version}${estimated}}`;
  if (isCached === true) return `${model},"usage":${usage},"cost":${cost},"attempts":0,"cached":true`;
  const latency = last === undefined ? "" : `,"latency_ms":${Math.round(last.latencyMs)}`;
  const tries = attempts === undefined ? "" : `,"attempts":${attempts}`;
  const id = last?.requestId === undefined ? "" : `,"provider_request_id":${textLiteral(last.requestId)}`;
  const late = last?.isLate === true ? ',"late":true' : "";
  return `${model},"usage":${usage},"cost":${cost}${latency}${late}${tries}${id}`;
}

/** With the provider's name before the name that the provider returned. */
function modelOf(requested: string, last: AttemptFacts | undefined): string {
  const answered = last?.model;
  return answered === undefined ? requested : `${requested.slice(0, requested.indexOf(":") + 1)}${answered}`;
}

/** To the pico-dollar: differences of floats beyond that are not money, and take up to 20 digits a line. */
function usdText(usd: number): string {
  return usd === 0 ? "0" : String(Math.round(usd * 1e12) / 1e12);
}

/**
 * The line of an item that ended without an answer. `keyJson` is null when the key could not be read, and `line`,
 * from 1, is then written beside it. The line is written into the error too. `facts` are absent when no request was sent;
 * `warnings` are a list in JSON, or empty.
 */
export function failedLine(
  keyJson: string | Uint8Array | null,
  line: number | undefined,
  failure: Failure,
  facts?: LineFacts,
  warnings = "",
  fields?: LineFields,
): string {
  const error = errorJson(failure, line);
  const warned = warnings === "" ? "" : `,"warnings":${warnings}`;
  const all = facts === undefined ? "" : `${trimmed(factsOf(facts), fields)}${metadataOf(facts, fields)}`;
  const end = `${all}${warned}}\n`;
  if (keyJson !== null) return `{"key":${literal(keyJson)},"output":null,"error":${error}${end}`;
  const place = line === undefined ? "" : `"line":${line},`;
  return `{"key":null,${place}"output":null,"error":${error}${end}`;
}

/** The error of a line in JSON, with the number of the input line where it is known. */
export function errorJson(failure: Failure, line: number | undefined): string {
  const {
    code,
    message,
    retryable,
    attempts,
    ambiguous_attempts,
    provider,
    provider_status,
    reasoning,
    answer,
  } = failure;
  return JSON.stringify({
    code,
    message,
    retryable,
    attempts,
    ambiguous_attempts,
    provider, // JSON.stringify leaves out what is undefined
    provider_status,
    line: failure.line ?? line,
    reasoning,
    answer,
  });
}

/** Reads an output line, with or without its newline; undefined when it is not a whole one. Never throws. */
export function readOutputLine(line: string | Uint8Array): ReadOutput | undefined {
  const parsed = parse(typeof line === "string" ? line : asBuffer(line).toString());
  if (!isObject(parsed)) return undefined;
  const value = asOwnLine(parsed);
  const { key, output, error, model } = value;
  if (typeof key !== "string" && key !== null) return undefined;
  const warned = Array.isArray(value["warnings"]) ? { warnings: JSON.stringify(value["warnings"]) } : {};
  if (isObject(output) && (typeof output["text"] === "string" || isWritten(output)))
    return {
      key,
      ok: true,
      textChars: charsOf(value, output),
      ...(value["finish_reason"] === "length" ? { isCut: true as const } : {}),
      ...(isObject(value["body"]) ? { body: value["body"] } : {}),
      ...(typeof model === "string" ? { model } : {}),
      ...usedOf(value),
      ...warned,
    };
  if (output !== null || !isObject(error) || typeof error["code"] !== "string") return undefined;
  const number = value["line"] ?? error["line"];
  const errorCode = error["code"] as FailureCode; // a line that perigee wrote; other codes match nothing
  const { ambiguous_attempts: ambiguous, provider_status: providerStatus } = error;
  return {
    key,
    ...(typeof number === "number" ? { line: number } : {}),
    ok: false,
    errorCode,
    ...(typeof ambiguous === "number" ? { ambiguousAttempts: ambiguous } : {}),
    ...(typeof providerStatus === "number" ? { providerStatus } : {}),
    ...usedOf(value),
    ...warned,
  };
}

function isWritten({ type }: JsonObject): boolean {
  return type === "embedding" || type === "moderation";
}

/** Of an answer from a cache. */
const NOTHING_USED: LineUsage = { ...NO_USAGE, listUsd: 0, billedUsd: 0, ambiguousUsd: 0 };

/** The reverse of `factsOf`; nothing of a line that says less, or what cannot be true. */
function usedOf(line: JsonObject): { readonly used?: LineUsage } {
  const { usage, cost } = line;
  if (!isObject(usage) || !isObject(cost)) return {};
  const tokens = {
    inputTokens: usage["input_tokens"],
    cachedTokens: usage["cached_tokens"],
    cacheWriteTokens: usage["cache_write_tokens"],
    outputTokens: usage["output_tokens"],
    reasoningTokens: usage["reasoning_tokens"],
  };
  if (line["cached"] === true) return { used: NOTHING_USED };
  const money = {
    listUsd: cost["list_usd"],
    billedUsd: cost["billed_usd"],
    ambiguousUsd: cost["ambiguous_usd"],
  };
  const isWhole = Object.values(tokens).every((count) => isAmount(count) && Number.isInteger(count));
  if (!isWhole || !Object.values(money).every(isAmount)) return {};
  const used = {
    ...tokens,
    ...money,
    isEstimated: cost["is_estimated"] === true && money.ambiguousUsd === 0,
  };
  return { used: used as LineUsage }; // each number was checked
}

/** No record holds more tokens; and no answer costs as much. */
function isAmount(value: unknown): boolean {
  return typeof value === "number" && value >= 0 && value <= 0xffff_ffff;
}

/** An output line as callers see it (one with a provider's body as it is), from one that was written by this version or an earlier one; `text` is such a line. */
export function parseOutputLine(text: string): OutputLine {
  const line = JSON.parse(text) as OutputLine;
  return isObject(line.output) && isOld(line.output) ? inThisForm(line) : line;
}

/** Whether more than type and text are inside, as in earlier versions. */
function isOld(output: JsonObject): boolean {
  if (output["type"] !== "text") return false;
  let members = 0;
  for (const _ in output) members += 1;
  return members > 2;
}

function inThisForm({ output, ...line }: OutputLine): OutputLine {
  const { type, text, ...members } = output as TextOutput &
    AnswerMembers & { readonly finish_reason?: string };
  const { finish_reason, ...others } = members;
  const finish = finish_reason === "pause" ? "length" : (finish_reason as FinishReason | undefined);
  return {
    ...line,
    output: { type, text },
    ...(finish === undefined ? {} : { finish_reason: finish }),
    ...others,
  };
}

/** What was generated: `logprobs` and `annotations` are not output tokens. */
function charsOf(line: JsonObject, output: JsonObject): number {
  const { text } = output;
  const { tool_calls, refusal, reasoning, other_candidates: others } = { ...output, ...line }; // earlier versions had them inside
  const lengthOf = (value: Json | undefined): number =>
    value === undefined ? 0 : JSON.stringify(value).length;
  const calls = lengthOf(tool_calls) + lengthOf(others);
  return [text, refusal, reasoning].reduce<number>(
    (sum, one) => sum + (typeof one === "string" ? one.length : 0),
    calls,
  );
}

/** A text as `JSON.stringify` spells it; asking first whether anything is to be escaped takes 0.25 us instead of 0.66. */
function textLiteral(text: string): string {
  return ESCAPED.test(text) ? JSON.stringify(text) : `"${text}"`;
}

function literal(keyJson: string | Uint8Array): string {
  return typeof keyJson === "string" ? keyJson : asBuffer(keyJson).toString();
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
