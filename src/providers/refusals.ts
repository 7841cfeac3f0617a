/**
 * The meaning of an answer other than a success: whether to repeat it, whom it concerns, and how it is called.
 *
 *   refused     429, 503, 529 (overload), 408, 409, 425, 498, redirects: no work was done, repeating is free
 *   ambiguous   5xx, 424, 499 and errors inside a 200: work may have been done and billed
 *   permanent   scope item: 400, 413, 422, filtered; scope model: 403, 404; scope provider: 401, 402, quota
 *
 * The provider's code wins over the status (a 429 may be an empty account, a 400 a wrong key, a 200 an error), and
 * `x-should-retry` wins over both, as in the official SDKs. Codes were read in OpenAI's API file, the official SDKs and
 * the providers' error pages, state 2026-11-20.
 *
 * Messages are our words, the status and a code of the provider that looks like one and like no key; the provider's own words only where
 * they concern no item (an account, a key, a model), never its body.
 */
import type { FailureCode } from "../errors.ts";
import type { Usage } from "../work/outcome.ts";
import { type ErrorFacts, readErrorBody } from "./error_body.ts";
import { nameOf } from "./json.ts";
import { isShownCode, withoutKeys } from "./key_text.ts";
import type { Decoded, FailureScope, WireAnswer } from "./provider.ts";
import { keptWaitMs, refusalWaitMs, statedWaitMs } from "./retry_after.ts";

/** A decoded answer other than a success. */
type Refusal = Exclude<Decoded, { readonly class: "success" }>;

interface Verdict {
  readonly class: Refusal["class"];
  readonly code: FailureCode;
  readonly scope: FailureScope;
  readonly words: string;
  readonly isRateLimit?: boolean;
  readonly isRampLimit?: boolean;
  readonly isOverload?: boolean;
  readonly isLimitNamed?: boolean;
}

/** The meaning of an answer whose status is not a success. `name` is the provider's. */
export function refusalOf(name: string, answer: WireAnswer): Refusal {
  return refusal(name, answer, readErrorBody(answer.body), answer.status);
}

/** The same of an error that a function threw, whose message may hold the prompt: it is read, and not shown. */
export function refusalThrown(name: string, answer: WireAnswer): Refusal {
  return refusal(name, answer, { ...readErrorBody(answer.body), isPrivate: true }, answer.status);
}

/** The meaning of an error inside an answer whose status is a success (OpenRouter documents this). */
export function refusalInside(name: string, answer: WireAnswer, facts: ErrorFacts, usage?: Usage): Refusal {
  const named = facts.codes.map((code) => STATUS_OF_CODE.get(code)).find((status) => status !== undefined);
  return refusal(name, answer, facts, facts.status ?? named ?? 500, usage);
}

/** A failure of one item that was read from a well-formed answer. */
export function itemFailure(
  kind: "ambiguous" | "permanent",
  code: FailureCode,
  message: string,
  usage?: Usage,
): Refusal {
  return { class: kind, code, message, scope: "item", ...(usage === undefined ? {} : { usage }) };
}

/** Of an answer without a vector for each input. Names the inputs as wrong where some have one: the others may be why. */
export function vectorsMissing(name: string, found: number, usage?: Usage): Refusal {
  const failure = itemFailure("ambiguous", "invalid_response", `${name} answered without embeddings`, usage);
  return found === 0 ? failure : { ...failure, member: "input" };
}

function refusal(
  name: string,
  answer: WireAnswer,
  facts: ErrorFacts,
  status: number,
  usage?: Usage,
): Refusal {
  const told = statedWaitMs(answer.headers, answer.wallMs) ?? facts.waitMs;
  const understood = byCode(facts, status) ?? byStatus(facts, status, told !== undefined);
  const verdict = overruled(understood, answer, status);
  const code = facts.codes.find(isShownCode);
  const requestId = nameOf(answer.headers["x-request-id"] ?? answer.headers["request-id"]);
  // A stopped account keeps its long wait (hours until the quota's day ends); a refused request is tried again sooner.
  const waitMs = verdict.class === "permanent" ? keptWaitMs(told) : refusalWaitMs(told);
  return {
    class: verdict.class,
    code: verdict.code,
    message: `${name} answered ${answer.status}${code === undefined ? "" : ` (${code})`}: ${verdict.words}${saidBy(facts, verdict)}`,
    scope: verdict.scope,
    ...(waitMs === undefined ? {} : { retryAfterMs: waitMs }),
    ...(verdict.isRateLimit === true ? { isRateLimit: true } : {}),
    ...(verdict.isRampLimit === true ? { isRampLimit: true } : {}),
    ...(verdict.isOverload === true ? { isOverload: true } : {}),
    ...(verdict.isLimitNamed === true ? { isLimitNamed: true } : {}),
    ...(facts.member === undefined ? {} : { member: facts.member }),
    ...(usage === undefined ? {} : { usage }),
    ...(requestId === undefined ? {} : { requestId }),
  };
}

/** The message of a refusal that concerns no item, so it cannot contain a prompt; text that looks like a key is removed. */
function saidBy({ message, isPrivate }: ErrorFacts, { scope }: Verdict): string {
  if (scope === "item" || isPrivate === true || message === "") return "";
  const said = withoutKeys(message.replace(/[\p{Cc}\s]+/gu, " "))
    .trim()
    .slice(0, SAID_CHARS_MAX);
  return said === "" ? "" : ` (it says: ${said})`;
}

/** Characters of a provider's own words that are shown. */
const SAID_CHARS_MAX = 200;

const QUOTA_CODES: ReadonlySet<string> = new Set([
  "insufficient_quota",
  "credit_balance_exhausted",
  "organization_spend_limit_exceeded",
  "project_spend_limit_exceeded",
  "organization_usage_limit_exceeded",
  "billing_hard_limit_reached",
  "billing_not_active",
  "billing_error",
  "insufficient_balance",
  "insufficient_credits",
  "enforced_spend_limit_reached",
  "contract_spend_limit_reached",
  "linked_organization_billing_unavailable",
  "linked_organization_spend_limit_reached",
]);
const KEY_CODES: ReadonlySet<string> = new Set([
  "invalid_api_key",
  "api_key_invalid",
  "api_key_expired",
  "account_deactivated",
  "authentication_error",
  "invalid_authentication",
  "unauthenticated",
  "organization_on_hold",
]);
const MODEL_CODES: ReadonlySet<string> = new Set([
  "model_not_found",
  "model_decommissioned",
  "model_not_available",
  "invalid_model",
  "deploymentnotfound",
]);
const CONTEXT_CODES: ReadonlySet<string> = new Set([
  "context_length_exceeded",
  "context_window_exceeded",
  "exceed_context_size_error",
]);
const FILTER_CODES: ReadonlySet<string> = new Set([
  "content_filter",
  "content_policy_violation",
  "invalid_prompt",
  "prompt_blocked",
  "data_inspection_failed",
]);
const OVERLOAD_CODES: ReadonlySet<string> = new Set([
  "overloaded_error",
  "overloaded",
  "server_overloaded",
  "capacity_exceeded",
  "resource_unavailable",
]);

/** A limit on the rate, as against a tier without capacity: OpenAI and its like, Anthropic. */
const LIMIT_CODES: ReadonlySet<string> = new Set([
  "rate_limit_exceeded",
  "rate_limit_error",
  "rate_limited",
  "requests",
  "tokens",
]);
/** Use that grew too fast: OpenAI, Anthropic. */
const RAMP_CODES: ReadonlySet<string> = new Set(["slow_down", "ramp_limit_exceeded"]);

/** Codes that mean a status where the status itself is a success. */
const STATUS_OF_CODE: ReadonlyMap<string, number> = new Map([
  ["rate_limit_exceeded", 429],
  ["rate_limit_error", 429],
  ["rate_limited", 429],
  ["too_many_requests", 429],
  ["resource_exhausted", 429],
  ["unavailable", 503],
  ["permission_error", 403],
  ["permission_denied", 403],
  ["not_found_error", 404],
  ["not_found", 404],
  ["request_too_large", 413],
  ["invalid_request_error", 400],
  ["invalid_argument", 400],
  ["timeout_error", 504],
  ["deadline_exceeded", 504],
]);

/** What the provider's own code decides, for any status. */
function byCode(facts: ErrorFacts, status: number): Verdict | undefined {
  const has = (known: ReadonlySet<string>): boolean => facts.codes.some((code) => known.has(code));
  if (has(QUOTA_CODES)) return QUOTA;
  if (has(KEY_CODES)) return KEY;
  if (has(MODEL_CODES)) return MODEL;
  if (has(CONTEXT_CODES)) return CONTEXT;
  if (has(FILTER_CODES) || (facts.isFlagged && status === 403)) return FILTERED;
  if (has(RAMP_CODES)) return RAMP;
  return has(OVERLOAD_CODES) ? OVERLOAD : undefined;
}

function byStatus(facts: ErrorFacts, status: number, hasWait: boolean): Verdict {
  switch (status) {
    case 400:
    case 422:
      return byBadRequest(facts);
    case 401:
      return KEY;
    case 403:
      return FORBIDDEN;
    case 402:
      return QUOTA;
    case 404:
    case 405:
    case 410:
      return MODEL;
    case 408:
      return refused("timeout", "the request timed out before it was read");
    case 409:
    case 425:
      return refused("provider_error", "the request collided with another");
    case 413:
      return item("request_too_large", "the request is too large");
    case 429:
      return byRateLimit(facts);
    case 503:
      return hasWait ? OVERLOAD : UNAVAILABLE; // a bare 503 is an outage, or the item's own
    case 498:
    case 529:
      return OVERLOAD;
    case 504:
      return ambiguous("timeout", "the answer did not arrive in time");
    default:
      return byRange(status);
  }
}

function byRange(status: number): Verdict {
  if (status >= 500 || status === 424 || status === 499) {
    return ambiguous("provider_error", "the provider failed");
  }
  if (status >= 400) return item("invalid_request", "the request was refused");
  const words = "expected an answer, got a redirect or an empty response; check the base URL";
  return refused("provider_error", words); // one item's, or all are sent elsewhere: what others get says which
}

/** A 400 or 422 is the item's own fault unless the code or wording says otherwise. */
function byBadRequest(facts: ErrorFacts): Verdict {
  // Gemini: billing is not enabled, or the region is not served (ai.google.dev/gemini-api/docs/troubleshooting).
  if (facts.codes.includes("failed_precondition")) return QUOTA;
  // Anthropic, a limit that the customer set or an empty account: they have no codes of their own.
  if (/reached your specified API usage limits|credit balance is too low/i.test(facts.message)) return QUOTA;
  if (/^model not exist/i.test(facts.message)) return MODEL; // DeepSeek
  if (CONTEXT_WORDS.test(facts.message)) return CONTEXT;
  return item("invalid_request", "the request was refused");
}

/** vLLM, Anthropic and Gemini have no code for a prompt that is too long. */
const CONTEXT_WORDS = /maximum context length|prompt is too long|input token count.{0,40} exceeds/i;

function byRateLimit(facts: ErrorFacts): Verdict {
  // One request above the whole bucket can never pass (OpenAI, Groq).
  if (/^request too large/i.test(facts.message)) {
    return item("request_too_large", "the request exceeds the rate limit by itself");
  }
  if (/\blimit: 0\b/.test(facts.message)) {
    const words = "the account has no quota for this model";
    return { class: "permanent", code: "quota_exceeded", scope: "model", words };
  }
  if (facts.quotas.some((quota) => quota.includes("perday"))) return QUOTA;
  const isNamed = facts.quotas.length > 0 || facts.codes.some((code) => LIMIT_CODES.has(code));
  return isNamed ? NAMED_RATE : RATE;
}

/** `x-should-retry` of the provider, which the official SDKs obey before anything else. */
function overruled(verdict: Verdict, answer: WireAnswer, status: number): Verdict {
  const header = answer.headers["x-should-retry"];
  if (header === "true" && verdict.class === "permanent") {
    return { ...verdict, class: "refused", scope: "item" };
  }
  if (header === "false" && verdict.class !== "permanent") {
    // A rate limit that no wait mends is an account's: it stops the provider and keeps the items.
    return status === 429
      ? QUOTA
      : { ...verdict, class: "permanent", isRateLimit: false, isRampLimit: false };
  }
  return verdict;
}

const QUOTA: Verdict = {
  class: "permanent",
  code: "quota_exceeded",
  scope: "provider",
  words: "the account's quota or credit is used up",
};
const KEY: Verdict = {
  class: "permanent",
  code: "authentication_failed",
  scope: "provider",
  words: "the key was not accepted",
};
const MODEL: Verdict = {
  class: "permanent",
  code: "model_not_found",
  scope: "model",
  words: "the model or path is not there",
};
const CONTEXT: Verdict = item("context_length_exceeded", "the prompt is too long for the model");
const FILTERED: Verdict = item("filtered", "the prompt was refused by a content filter");
const RATE: Verdict = {
  class: "refused",
  code: "rate_limited",
  scope: "item",
  words: "the rate limit is reached",
  isRateLimit: true,
};
const NAMED_RATE: Verdict = { ...RATE, isLimitNamed: true };
const RAMP: Verdict = { ...NAMED_RATE, words: "the use grew too fast", isRampLimit: true };
const FORBIDDEN: Verdict = {
  class: "permanent",
  code: "authentication_failed",
  scope: "model",
  words: "the key may not use this model",
};
const UNAVAILABLE: Verdict = refused("overloaded", "the provider is not available");
const OVERLOAD: Verdict = { ...refused("overloaded", "the provider is overloaded"), isOverload: true };

function item(code: FailureCode, words: string): Verdict {
  return { class: "permanent", code, scope: "item", words };
}

function refused(code: FailureCode, words: string): Verdict {
  return { class: "refused", code, scope: "item", words };
}

function ambiguous(code: FailureCode, words: string): Verdict {
  return { class: "ambiguous", code, scope: "item", words };
}
