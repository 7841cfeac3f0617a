/**
 * What a refused step of a batch means, whichever provider refused it: its answer as a `BatchFailure`, the error of a whole batch or
 * of a line of it as a `BatchFault`. The reading of realtime (refusals.ts) decides, except for what only batches have:
 *
 *   what may be with the provider is with it (any status)   full
 *   401, 402, 403, no money, a key that is not valid        account; at Gemini a 403 may be a file that is not there: gone
 *   404, 410                                                gone; of a create that names the model: permanent
 *   413, and a 400 about the size of the body               too_large
 *   429, 498, redirects                                     refused, with the wait that was asked for
 *   5xx, and a success without what was asked for           unknown
 *   408, 409, 425, 499                                      refused; of a create: unknown, since a look at the list is cheap and a second
 *                                                           batch is not
 *   other 4xx                                               permanent
 *
 * Messages are our words and the provider's code, never its body: a create holds prompts.
 */
import { type ErrorFacts, errorFacts, readErrorBody } from "../error_body.ts";
import { objectOf, parseJson } from "../json.ts";
import { isShownCode, withoutKeys } from "../key_text.ts";
import type { WireAnswer } from "../provider.ts";
import { refusalInside, refusalThrown } from "../refusals.ts";
import type { BatchFailure, BatchFault } from "./batch_wire.ts";

type Refusal = ReturnType<typeof refusalThrown>;

/**
 * The meaning of an answer that is not what a step asked for. `what`: `create` for a step that makes a batch when it takes effect, so
 * that doubt means `unknown`; `other` for steps that may be repeated at will. `answer` may be a success without the expected body.
 */
export function failureOf(answer: WireAnswer, what: "create" | "other"): BatchFailure {
  const { status } = answer;
  const isSuccess = status >= 200 && status <= 299;
  const inside = isSuccess ? (objectOf(parseJson(answer.body))?.["error"] ?? undefined) : undefined;
  if (isSuccess && inside === undefined) {
    const message = `the provider answered ${status} without what was asked for`;
    return { ok: false, is: "unknown", message, status };
  }
  const facts: ErrorFacts = {
    ...(isSuccess ? errorFacts(inside) : readErrorBody(answer.body)),
    isPrivate: true,
  };
  const refusal = isSuccess
    ? refusalInside("the provider", answer, facts)
    : refusalThrown("the provider", answer);
  const { message, retryAfterMs } = refusal;
  const is = isFull(facts) ? "full" : kindOf(refusal, facts, facts.status ?? status, what);
  return {
    ...{ ok: false, is, message, status },
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(is === "account" && refusal.code === "authentication_failed" ? { isDenied: true } : {}),
  };
}

function kindOf(
  refusal: Refusal,
  facts: ErrorFacts,
  status: number,
  what: "create" | "other",
): BatchFailure["is"] {
  if (status === 403 && LOST_FILE_WORDS.test(facts.message)) return "gone";
  if (refusal.code === "authentication_failed" || refusal.code === "quota_exceeded") return "account";
  if (refusal.code === "model_not_found") {
    const isModel = MODEL_WORDS.test(facts.message) || facts.codes.some((code) => MODEL_WORDS.test(code));
    return (what === "create" && isModel) || status < 404 ? "permanent" : "gone";
  }
  if (refusal.code === "request_too_large" || SIZE_WORDS.test(facts.message)) return "too_large";
  if (status >= 500 || refusal.class === "ambiguous") return "unknown";
  if (what === "create" && DOUBTFUL.has(status)) return "unknown";
  return refusal.class === "refused" ? "refused" : "permanent";
}

/** Whether as much is with the provider as may be: it passes when a batch ends. */
function isFull({ codes, message, quotas }: ErrorFacts): boolean {
  return (
    codes.some((code) => FULL_CODES.has(code)) ||
    quotas.some((quota) => /enqueued|concurrentbatch/.test(quota)) ||
    FULL_WORDS.test(message)
  );
}

/** OpenAI and Azure, for the tokens of all open batches of a model (learn.microsoft.com/azure/ai-services/openai/how-to/batch). */
const FULL_CODES: ReadonlySet<string> = new Set(["token_limit_exceeded"]);
/** No provider but OpenAI documents a code: the wordings of others are expected, not known. */
const FULL_WORDS =
  /\benqueued\b|\bbatch queue\b|\b(?:concurrent|open|active|queued|in-progress) batch|too many batch|batch requests? in (?:the )?queue/i;
/** Gemini: "You do not have permission to access the File abc or it may not exist." */
const LOST_FILE_WORDS = /\bfile\b.{0,80}may not exist/i;
const MODEL_WORDS = /\bmodels?(?:\b|_)|deployment/i;
/** Gemini refuses a body above 20 MB with a 400, OpenAI a file above 200 MB; proxies write the name of the status. */
const SIZE_WORDS = /payload size exceeds|request entity too large|file is too large/i;
/** Statuses of requests that were cut off or met another one; a batch may have been made. */
const DOUBTFUL: ReadonlySet<number> = new Set([408, 409, 425, 499]);

/**
 * A fault that a batch shows: `error` is an error object of the provider (`{code, message}`, `google.rpc.Status`) or its text; `line`
 * counts from 0, absent for a fault of the whole batch. What a provider says of a line is not shown, since it may quote it.
 */
export function faultOf(error: unknown, line?: number): BatchFault {
  const facts = errorFacts(error);
  const code = facts.codes.find(isShownCode) ?? "unknown";
  const is = faultKind(facts, line);
  if (line !== undefined) return { line, code, message: `line ${line + 1} of the batch was refused`, is };
  const said = withoutKeys(facts.message.replace(/[\p{Cc}\s]+/gu, " ")).trim();
  return { code, message: said === "" ? "the batch failed" : said.slice(0, SAID_CHARS_MAX), is };
}

/** Characters of a provider's own words that are shown. */
const SAID_CHARS_MAX = 200;
/** Of a batch whose error is only a text (Mistral, Together). */
const MONEY_WORDS =
  /\binsufficient[ _](?:quota|credits?|balance|funds)\b|\b(?:out of|not enough) credits?\b|\bspend(?:ing)? limit\b|\bbilling\b/i;

function faultKind(facts: ErrorFacts, line: number | undefined): BatchFault["is"] {
  if (isFull(facts)) return "full";
  if (line === undefined && MONEY_WORDS.test(facts.message)) return "account";
  const answer: WireAnswer = { status: facts.status ?? 400, headers: {}, body: new Uint8Array(), wallMs: 0 };
  const { code, scope } = refusalInside("", answer, { ...facts, status: facts.status ?? 400 });
  if (scope === "provider" && (code === "quota_exceeded" || code === "authentication_failed"))
    return "account";
  return line === undefined ? "batch" : "item";
}
