/**
 * Failure codes as numbers, for journals and the work log: one byte each, 0 without one.
 */
import type { FailureCode } from "../errors.ts";

/** Append only, never reorder: journals hold the indexes. */
const CODES: readonly (FailureCode | undefined)[] = [
  undefined,
  "invalid_json",
  "invalid_line",
  "invalid_utf8",
  "line_too_long",
  "too_deep",
  "duplicate_member",
  "invalid_key",
  "duplicate_key",
  "unknown_model",
  "invalid_config",
  "invalid_contents",
  "unsupported_request",
  "tokenizer_failed",
  "ambiguous",
  "expired",
  "cancelled",
  "budget_exceeded",
  "rate_limited",
  "request_too_large",
  "context_length_exceeded",
  "invalid_request",
  "model_not_found",
  "authentication_failed",
  "quota_exceeded",
  "filtered",
  "empty_output",
  "invalid_response",
  "response_too_large",
  "provider_error",
  "overloaded",
  "timeout",
  "connection_failed",
  "connection_lost",
  "input_changed",
  "provider_missing",
  "key_missing",
  "price_unknown",
  "cost_unbounded",
  "schema_unmet",
  "media_unreadable",
];
const CODE_NUMBERS: ReadonlyMap<string | undefined, number> = new Map(
  CODES.map((code, index) => [code, index]),
);

/** The number of a code, 0 for undefined and for those without a number. */
export function numberOfCode(code: string | undefined): number {
  return code === undefined ? 0 : (CODE_NUMBERS.get(code) ?? 0);
}

/** The code of a number, undefined for 0 and for numbers that are not known. */
export function codeOfNumber(number: number): FailureCode | undefined {
  return CODES[number];
}

/** All codes that a line can end with and a journal can say. */
export const RECORDED_CODES: readonly FailureCode[] = CODES.filter((code) => code !== undefined);

/** What a retry may name: a service shows the last one in place of an answer that is damaged. */
export const RETRY_CODES: readonly FailureCode[] = [...RECORDED_CODES, "output_damaged"];
