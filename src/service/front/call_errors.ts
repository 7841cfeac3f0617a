/**
 * Why a call has no answer, as OpenAI's clients know errors: a status and a code by which they repeat the call or do not.
 *
 *   of the provider      its own 4xx; 429 with Retry-After; 502, 503 or 504 for its faults and for its key, which is the operator's
 *   held                 402 for a cap, 404 for a model, 429 for rate limits, 503 for all else
 *   expired, cancelled   504 and 409, which no repeat changes
 *
 * `x-should-retry: false` keeps OpenAI's clients from repeating what cannot succeed, or what would be sent and paid for twice.
 */
import type { Hold, HoldReason } from "../../engine/items/holds.ts";
import { type FailureCode, PerigeeError } from "../../errors.ts";
import type { Item } from "../../work/item.ts";
import type { Failure } from "../../work/outcome.ts";
import { StatedError } from "../http/errors.ts";

/** Statuses by code, where the provider's own does not decide. */
const STATUSES: Partial<Record<FailureCode, number>> = {
  unknown_model: 404,
  provider_missing: 404,
  model_not_found: 404,
  key_missing: 503,
  authentication_failed: 502,
  quota_exceeded: 503,
  budget_exceeded: 402,
  price_unknown: 402,
  cost_unbounded: 402,
  request_too_large: 413,
  context_length_exceeded: 400,
  invalid_request: 400,
  invalid_config: 400,
  invalid_contents: 400,
  unsupported_request: 400,
  media_unreadable: 400,
  filtered: 400,
  rate_limited: 429,
  overloaded: 503,
  timeout: 504,
  expired: 504,
  cancelled: 409,
};
/** Of providers, refusals of the operator's key and account, which say nothing of the caller's. */
const OPERATORS: ReadonlySet<number> = new Set([401, 402, 403, 407]);
const LIMIT_RETRY_SECONDS = 5;
const HELD_RETRY_SECONDS = 30;
const NO_RETRY: Readonly<Record<string, string>> = { "x-should-retry": "false" };

/** The error of an item that ended without an answer. */
export function failedCall({ code, message, retryable, provider_status }: Failure): StatedError {
  const isTheirs = provider_status !== undefined && provider_status >= 400 && provider_status < 500;
  const isPassed = isTheirs && !OPERATORS.has(provider_status) && provider_status !== 408;
  const status = isPassed ? provider_status : (STATUSES[code] ?? 502);
  const isFinal = !retryable || code === "expired" || code === "cancelled";
  const again = status === 429 ? { "retry-after": String(LIMIT_RETRY_SECONDS) } : {};
  return new StatedError(status, { code, message, headers: isFinal ? NO_RETRY : again });
}

/** The error of a call that is not answered because of what holds its item. */
export function heldCall([hold]: readonly Hold[], nowWallMs: number): StatedError {
  if (hold === undefined) return cancelledCall();
  const { reason, provider, model, next_try } = hold;
  const status = HELD_STATUSES[reason] ?? 503;
  const isForCaller = status === 402 || status === 404;
  const seconds = next_try === null ? HELD_RETRY_SECONDS : (Date.parse(next_try) - nowWallMs) / 1_000;
  const again = { "retry-after": String(Math.max(1, Math.ceil(seconds))) };
  const where = model ?? provider;
  const message = `the call is held (${reason}${where === undefined ? "" : `, ${where}`}) and was cancelled`;
  return new StatedError(status, { code: reason, message, headers: isForCaller ? NO_RETRY : again });
}

/** Statuses of holds that are not the service's state. */
const HELD_STATUSES: Partial<Record<HoldReason, number>> = {
  cap_reached: 402,
  price_unknown: 402,
  rate_limited: 429,
  model_unavailable: 404,
  provider_missing: 404,
};

/** The time of the call is over and its item is open; with a key the same call fetches the answer. */
export function lateCall(hasKey: boolean): StatedError {
  const message = hasKey
    ? "the answer is not ready yet; repeat the call with its Idempotency-Key to continue to wait"
    : "the answer is not ready yet, and the call has no Idempotency-Key to fetch it by; GET /v0/infer/task/ and the id in x-perigee-task-id returns it";
  return new StatedError(408, {
    code: "not_ready",
    message,
    headers: hasKey ? { "retry-after": "1" } : NO_RETRY,
  });
}

/** The time of a call without sla and key is over, and its item was cancelled: a repeat may be paid twice, or wait as long. */
export function cancelledCall(): StatedError {
  const message =
    "the call was not answered in time, so it was cancelled; send calls with an Idempotency-Key to fetch late answers";
  return new StatedError(408, { code: "not_ready", message, headers: NO_RETRY });
}

/** This process stops, and the item was cancelled before it was sent: a repeat costs nothing twice. */
export function unsentCall(): StatedError {
  const message = "the call was cancelled before it was sent; repeat it";
  return new StatedError(503, { code: "unavailable", message, headers: { "retry-after": "1" } });
}

/** What OpenAI's clients call the settings that a refusal may name. */
const SETTINGS: ReadonlyMap<string, string> = new Map([
  ["candidate_count", "n"],
  ["max_output_tokens", "max_completion_tokens"],
  ["response_mime_type", "response_format"],
  ["response_schema", "response_format"],
  ["stop_sequences", "stop"],
  ["thinking_budget", "reasoning_effort"],
  ["thinking_level", "reasoning_effort"],
]);
const SETTING = new RegExp(`\\b(?:${[...SETTINGS.keys()].join("|")})\\b`, "g");
/** What the body calls the question of an item, where its kind is not a chat. */
const QUESTIONS: ReadonlyMap<Item["kind"], string> = new Map([
  ["completion", "prompt"],
  ["embedding", "input"],
  ["response", "input"],
]);

/** A refusal of the only item in words for a call: without the item's number, which the caller does not know. */
export function callError(error: unknown, { kind }: Pick<Item, "kind">): unknown {
  if (!(error instanceof PerigeeError)) return error;
  const { code, details, cause } = error;
  const param = typeof details["param"] === "string" ? details["param"].replace(/^0\.?/, "") : undefined;
  const message = error.message
    .replace(/^item 0: /, "")
    .replace(SETTING, (setting) => SETTINGS.get(setting) ?? setting);
  if (param === "model" && code === "usage")
    return new StatedError(404, { code: "model_not_found", message, param });
  if (param === undefined) return error;
  const isWhole = param === "" || param === "generation_config";
  const question = QUESTIONS.get(kind) ?? "messages";
  const named = isWhole ? "body" : param === "input" ? question : (SETTINGS.get(param) ?? param);
  return new PerigeeError(code, message, { cause, details: { ...details, param: named } });
}
