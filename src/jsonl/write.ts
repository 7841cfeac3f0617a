/**
 * Output lines: one per accepted key, success or error, each with its newline (interface 2.6, `work/item.ts`).
 *
 *   {"key":K,"output":{"type":"text","text":T}}           `"finish_reason":"length"` inside output when it was cut
 *   {"key":K,"output":null,"error":{...}}
 *   {"key":null,"line":N,"output":null,"error":{...}}     the input line's key could not be read
 *
 * Keys come as JSON string literals, made once where the line was parsed. Hot path: one call per item (`bench/jsonl.ts`).
 */
import type { FailureCode } from "../errors.ts";
import { isObject } from "../work/json.ts";
import type { Failure } from "../work/outcome.ts";
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
  readonly errorCode?: FailureCode;
  /** Of an answer: UTF-16 units of its text. */
  readonly textChars?: number;
  /** Of an error: requests that may have been billed without an answer. */
  readonly ambiguousAttempts?: number;
}

/** The line of an answered item. `keyJson` is the key as a JSON string literal, as text or in UTF-8. */
export function completedLine(
  keyJson: string | Uint8Array,
  text: string,
  finish: "stop" | "length" = "stop",
): string {
  const end = finish === "length" ? ',"finish_reason":"length"}}\n' : "}}\n";
  return `{"key":${literal(keyJson)},"output":{"type":"text","text":${textLiteral(text)}${end}`;
}

/**
 * The line of an item that ended without an answer. `keyJson` is null when the key could not be read, and `line`,
 * from 1, then stands beside it. The line is written into the error too.
 */
export function failedLine(
  keyJson: string | Uint8Array | null,
  line: number | undefined,
  failure: Failure,
): string {
  const { code, message, retryable, attempts, ambiguous_attempts, provider, provider_status } = failure;
  const error = JSON.stringify({
    code,
    message,
    retryable,
    attempts,
    ambiguous_attempts,
    provider, // JSON.stringify leaves out what is undefined
    provider_status,
    line: failure.line ?? line,
  });
  if (keyJson !== null) return `{"key":${literal(keyJson)},"output":null,"error":${error}}\n`;
  const place = line === undefined ? "" : `"line":${line},`;
  return `{"key":null,${place}"output":null,"error":${error}}\n`;
}

/** Reads an output line, with or without its newline; undefined when it is not a whole one. Never throws. */
export function readOutputLine(line: string | Uint8Array): ReadOutput | undefined {
  const value = parse(typeof line === "string" ? line : asBuffer(line).toString());
  if (!isObject(value)) return undefined;
  const { key, output, error } = value;
  if (typeof key !== "string" && key !== null) return undefined;
  if (isObject(output) && typeof output["text"] === "string")
    return { key, ok: true, textChars: output["text"].length };
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
  };
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
