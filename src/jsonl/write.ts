/**
 * Output lines: one per accepted key, success or error, each with its newline (interface 2.6, `work/item.ts`).
 *
 *   {"key":K,"output":{"type":"text","text":T}}           inside output also why it ended, and what came with the text,
 *                                                         `"model":M` behind it when another than the line's own answered
 *   {"key":K,"output":null,"error":{...}}
 *   {"key":null,"line":N,"output":null,"error":{...}}     the input line's key could not be read
 *
 * Behind them `"warnings":[...]`, when something was left out of the request or changed in it.
 *
 * Keys come as JSON string literals, made once where the line was parsed. Hot path: one call per item (`bench/jsonl.ts`).
 */
import type { FailureCode } from "../errors.ts";
import { isObject, type JsonObject } from "../work/json.ts";
import type { Failure, Output } from "../work/outcome.ts";
import { asBuffer } from "./lines.ts";

export { wholeLinesEnd } from "./lines.ts";

/** Units that JSON escapes, and surrogates, of which lone ones are escaped. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const ESCAPED = /["\\\u0000-\u001f\ud800-\udfff]/;

/** What recovery needs to know of an output line. */
export interface ReadOutput {
  readonly key: string | null;
  /** The input line it answers, where it says so: beside a null key, or in its error. */
  readonly line?: number;
  /** Whether it holds an answer, not an error. */
  readonly ok: boolean;
  /** The model that answered, where it was not the line's own. */
  readonly model?: string;
  readonly errorCode?: FailureCode;
  /** Of an answer: UTF-16 units of its text and of what came with it. */
  readonly textChars?: number;
  /** Its warnings as JSON; absent when it has none. */
  readonly warnings?: string;
  /** Of an error: requests that may have been billed without an answer. */
  readonly ambiguousAttempts?: number;
}

/**
 * The line of an answered item. `keyJson` is the key as a JSON string literal, as text or in UTF-8; `warnings` are a list
 * in JSON, or empty; `model` is given when it is not the line's own.
 */
export function completedLine(
  keyJson: string | Uint8Array,
  output: Output,
  warnings = "",
  model?: string,
): string {
  const { text, finish_reason } = output;
  const reason = finish_reason === undefined ? "" : `,"finish_reason":"${finish_reason}"`;
  const answeredBy = model === undefined ? "" : `,"model":${textLiteral(model)}`;
  const end = warnings === "" ? "}\n" : `,"warnings":${warnings}}\n`;
  return `{"key":${literal(keyJson)},"output":{"type":"text","text":${textLiteral(text)}${reason}${membersOf(output)}}${answeredBy}${end}`;
}

function membersOf({ tool_calls, refusal, reasoning, logprobs, annotations }: Output): string {
  return (
    memberOf("tool_calls", tool_calls) +
    memberOf("refusal", refusal) +
    memberOf("reasoning", reasoning) +
    memberOf("logprobs", logprobs) +
    memberOf("annotations", annotations)
  );
}

function memberOf(name: string, value: unknown): string {
  return value === undefined ? "" : `,"${name}":${JSON.stringify(value)}`;
}

/**
 * The line of an item that ended without an answer. `keyJson` is null when the key could not be read, and `line`,
 * from 1, then stands beside it. The line is written into the error too. `warnings` are a list in JSON, or empty.
 */
export function failedLine(
  keyJson: string | Uint8Array | null,
  line: number | undefined,
  failure: Failure,
  warnings = "",
): string {
  const { code, message, retryable, attempts, ambiguous_attempts, provider, provider_status, reasoning } =
    failure;
  const error = JSON.stringify({
    code,
    message,
    retryable,
    attempts,
    ambiguous_attempts,
    provider, // JSON.stringify leaves out what is undefined
    provider_status,
    line: failure.line ?? line,
    reasoning,
  });
  const end = warnings === "" ? "}\n" : `,"warnings":${warnings}}\n`;
  if (keyJson !== null) return `{"key":${literal(keyJson)},"output":null,"error":${error}${end}`;
  const place = line === undefined ? "" : `"line":${line},`;
  return `{"key":null,${place}"output":null,"error":${error}${end}`;
}

/** Reads an output line, with or without its newline; undefined when it is not a whole one. Never throws. */
export function readOutputLine(line: string | Uint8Array): ReadOutput | undefined {
  const value = parse(typeof line === "string" ? line : asBuffer(line).toString());
  if (!isObject(value)) return undefined;
  const { key, output, error, model } = value;
  if (typeof key !== "string" && key !== null) return undefined;
  const warned = Array.isArray(value["warnings"]) ? { warnings: JSON.stringify(value["warnings"]) } : {};
  if (isObject(output) && typeof output["text"] === "string")
    return {
      key,
      ok: true,
      textChars: charsOf(output),
      ...(typeof model === "string" ? { model } : {}),
      ...warned,
    };
  if (output !== null || !isObject(error) || typeof error["code"] !== "string") return undefined;
  const number = value["line"] ?? error["line"];
  const errorCode = error["code"] as FailureCode; // a line that perigee wrote; other codes match nothing
  const ambiguous = error["ambiguous_attempts"];
  return {
    key,
    ...(typeof number === "number" ? { line: number } : {}),
    ok: false,
    errorCode,
    ...(typeof ambiguous === "number" ? { ambiguousAttempts: ambiguous } : {}),
    ...warned,
  };
}

/** What was generated: `logprobs` and `annotations` are no output tokens. */
function charsOf({ text, tool_calls, refusal, reasoning }: JsonObject): number {
  const calls = tool_calls === undefined ? 0 : JSON.stringify(tool_calls).length;
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
