/**
 * The facts in an error body, whichever provider wrote it and in whichever shape:
 *
 *   {"error":{"message","type","param","code"}}               OpenAI and family; `code` is a number at llama.cpp, OpenRouter
 *   {"type":"error","error":{"type","message","details"}}     Anthropic; the finer code is `details.error_code`
 *   {"error":{"code":429,"status","message","details":[]}}    Gemini; sometimes inside a one-element array
 *   {"object":"error","message","type","code"}                older vLLM, Mistral
 *   {"detail":[{"loc","msg","type"}]}, {"detail":"text"}      FastAPI: Mistral, vLLM
 *   {"error":"text"}                                          Ollama
 *
 * Limits: bodies over 1 MiB are not read (only the status decides); a code is kept only when it looks like one
 * (`[A-Za-z0-9_.-]`, at most 64 characters), so that no prompt or key can travel in it.
 */
import { arrayOf, objectOf, parseJson, stringOf, type Unchecked } from "./json.ts";
import { protoDurationMs } from "./retry_after.ts";

/** What an error body says. Codes are lower-case, the most telling first. */
export interface ErrorFacts {
  readonly codes: readonly string[];
  /** An HTTP status named inside the body. */
  readonly status: number | undefined;
  /** For matching only; never shown. */
  readonly message: string;
  /** The message may hold texts of an item. */
  readonly isPrivate?: true;
  /** The wait named inside the body, in ms. */
  readonly waitMs: number | undefined;
  /** Gemini's names of the quotas that were exceeded, lower-case. */
  readonly quotas: readonly string[];
  /** OpenRouter: the input was flagged by a moderation. */
  readonly isFlagged: boolean;
  /** The member of the request that the error is about, without what is inside it: `param` (OpenAI), `loc` (FastAPI). */
  readonly member: string | undefined;
}

/** The facts of a body that says nothing. */
const NO_FACTS: ErrorFacts = {
  codes: [],
  status: undefined,
  message: "",
  waitMs: undefined,
  quotas: [],
  isFlagged: false,
  member: undefined,
};

const ERROR_BODY_BYTES_MAX = 1_048_576;
const MESSAGE_LENGTH_MAX = 4_000;
const DETAILS_MAX = 32;

/** Reads the body of an answer other than a success. */
export function readErrorBody(body: Uint8Array): ErrorFacts {
  if (body.byteLength === 0 || body.byteLength > ERROR_BODY_BYTES_MAX) return NO_FACTS;
  const value = parseJson(body);
  const record = objectOf(value) ?? objectOf(arrayOf(value)?.[0]);
  if (record === undefined) return NO_FACTS;
  return errorFacts(record["error"] ?? record);
}

/** Reads the error itself: an object, or a text. */
export function errorFacts(value: unknown): ErrorFacts {
  const error = objectOf(value);
  if (error === undefined) return { ...NO_FACTS, message: short(stringOf(value)) };
  const details = (arrayOf(error["details"]) ?? [])
    .slice(0, DETAILS_MAX)
    .map((detail) => objectOf(detail) ?? {});
  const metadata = objectOf(error["metadata"]);
  const codes = [
    objectOf(error["details"])?.["error_code"],
    ...details.map((detail) => detail["reason"]),
    error["code"],
    error["type"],
    error["status"],
  ];
  return {
    codes: codes.map(codeOf).filter((code) => code !== undefined),
    status: statusOf(error["code"]) ?? statusOf(error["status"]),
    message: short(stringOf(error["message"]) ?? stringOf(error["detail"])),
    waitMs: details.map((detail) => protoDurationMs(detail["retryDelay"])).find((ms) => ms !== undefined),
    quotas: details.flatMap(quotasOf),
    isFlagged: arrayOf(metadata?.["reasons"]) !== undefined || metadata?.["flagged_input"] !== undefined,
    member: memberOf(error["param"]) ?? memberOf(placeOf(error["detail"])),
  };
}

/** Of `[{"loc":["body","dimensions"],...}]`, where all that is wrong is in one member. */
function placeOf(detail: unknown): unknown {
  const faults = arrayOf(detail) ?? [];
  return faults.length === 1 ? arrayOf(objectOf(faults[0])?.["loc"])?.[1] : undefined;
}

function memberOf(path: unknown): string | undefined {
  return typeof path === "string" ? /^[a-z_]{1,64}(?=$|[.[])/.exec(path)?.[0] : undefined;
}

function codeOf(value: unknown): string | undefined {
  return typeof value === "string" && /^[A-Za-z0-9_.-]{1,64}$/.test(value) ? value.toLowerCase() : undefined;
}

function statusOf(value: unknown): number | undefined {
  const status = typeof value === "string" && /^\d{3}$/.test(value) ? Number(value) : value;
  return Number.isInteger(status) && (status as number) >= 400 && (status as number) <= 599
    ? (status as number) // an integer by the first test
    : undefined;
}

function quotasOf(detail: Unchecked): string[] {
  return (arrayOf(detail["violations"]) ?? [])
    .slice(0, DETAILS_MAX)
    .map((violation) => stringOf(objectOf(violation)?.["quotaId"])?.toLowerCase())
    .filter((quota) => quota !== undefined);
}

function short(text: string | undefined): string {
  return text === undefined ? "" : text.slice(0, MESSAGE_LENGTH_MAX);
}
