/**
 * One attempt, understood: what the wire or the codec said, in the words that limits, retries and outcomes need.
 *
 *   wire failure   class       code
 *   not_sent       not_sent    connection_failed
 *   lost           ambiguous   connection_lost
 *   timeout        ambiguous   timeout
 *   too_large      ambiguous   response_too_large
 *   source_failed  not_sent    media_unreadable     (of requests with files in them)
 *   source_refused permanent   media_unreadable
 *   source_away    not_sent    media_unreadable     (and it does not count against the item)
 *   aborted        ambiguous   cancelled            (it may have been sent; the item is requested again)
 */
import type { FailureCode } from "../errors.ts";
import { isCharged } from "../price/cost.ts";
import type { Decoded, FailureScope } from "../providers/provider.ts";
import { believable } from "../providers/usage.ts";
import { jsonOf } from "../work/json.ts";
import type { LearntLimits } from "../work/limits.ts";
import {
  type AnswerMembers,
  type AttemptClass,
  type AttemptFacts,
  type FinishReason,
  NO_USAGE,
  tokensOfChars,
  type Usage,
  type WrittenOutput,
} from "../work/outcome.ts";
import type { WireFailure } from "./transport.ts";

/** How one attempt ended. */
export interface AttemptResult extends AttemptFacts {
  readonly class: AttemptClass;
  /** Absent on success. */
  readonly code?: FailureCode;
  /** perigee's own words; never a body, a prompt or a key. Empty on success. */
  readonly message: string;
  readonly scope: FailureScope;
  /** Of the HTTP answer; absent without one. */
  readonly status?: number;
  /** What the provider billed; always there on success, estimated where it did not say. */
  readonly usage?: Usage;
  /** On success; empty only where `members` holds the answer. */
  readonly text?: string;
  /** On success, of an answer that is not a text. */
  readonly output?: WrittenOutput | undefined;
  /** On success. */
  readonly finish?: FinishReason;
  /** On success: what the answer holds besides its text. */
  readonly members?: AnswerMembers | undefined;
  /** On success, of an answer that was checked: it as JSON on one line. */
  readonly parsed?: string;
  /** Of an answer that does not fit: asking again is of no use. */
  readonly isFinal?: true;
  /** Of an answer without text: what the model thought. */
  readonly reasoning?: string;
  /** The wait that the provider asked for. */
  readonly retryAfterMs?: number;
  readonly isRateLimit?: boolean;
  readonly isRampLimit?: boolean;
  /** The provider says that it has too much to do. */
  readonly isOverload?: boolean;
  /** The tier that was asked for is to blame, not the item: refused for want of capacity, not answered in its time, or not known. */
  readonly ofTier?: "shed" | "slow" | "unknown";
  /** The disk or store of a file is to blame that the item names, and neither the item nor the provider. */
  readonly isOfPlace?: true;
  /** Of a rate limit, whether the provider named the limit. */
  readonly isLimitNamed?: boolean;
  /** Of a refusal: the member of the body that is wrong, where the provider names it. */
  readonly member?: string;
  /** Limits in the answer's headers. */
  readonly learnt?: LearntLimits | undefined;
}

/** What is known of an answer besides its meaning. */
export interface AnswerFacts {
  /** 0 where a function failed, which does not have one. */
  readonly status: number;
  readonly learnt: LearntLimits | undefined;
  readonly latencyMs: number;
  /** Counted before the send; used instead when the provider does not report it. */
  readonly inputTokens: number;
}

const WIRE_FAILURES: Readonly<
  Record<WireFailure, Pick<AttemptResult, "class" | "isOfPlace"> & { readonly code: FailureCode }>
> = {
  not_sent: { class: "not_sent", code: "connection_failed" },
  lost: { class: "ambiguous", code: "connection_lost" },
  timeout: { class: "ambiguous", code: "timeout" },
  too_large: { class: "ambiguous", code: "response_too_large" },
  aborted: { class: "ambiguous", code: "cancelled" },
  source_failed: { class: "not_sent", code: "media_unreadable" },
  source_refused: { class: "permanent", code: "media_unreadable" },
  source_away: { class: "not_sent", code: "media_unreadable", isOfPlace: true },
};

/** An attempt that brought no answer. */
export function failedOnWire(failure: WireFailure, message: string, latencyMs: number): AttemptResult {
  return { ...WIRE_FAILURES[failure], message, scope: "item", latencyMs };
}

/** An attempt with an answer of any kind. A success that holds nothing counts as `empty_output`. */
export function answered(decoded: Decoded, facts: AnswerFacts): AttemptResult {
  const { status, learnt, latencyMs, inputTokens } = facts;
  const hasOutput = decoded.class === "success" && holdsAnswer(decoded);
  const isText = decoded.class === "success" && decoded.output === undefined;
  const usage = believable(decoded.usage, { inputTokens, hasOutput: hasOutput && isText });
  if (hasOutput) {
    return {
      class: "success",
      message: "",
      scope: "item",
      text: decoded.text,
      output: decoded.output,
      finish: decoded.finish,
      members: decoded.members,
      usage: usage ?? estimate(inputTokens, decoded),
      model: decoded.model,
      requestId: decoded.requestId,
      servedTier: decoded.servedTier,
      body: decoded.body,
      status,
      learnt,
      latencyMs,
    };
  }
  const rest = {
    ...(status === 0 ? {} : { status }),
    latencyMs,
    ...(learnt === undefined ? {} : { learnt }),
  };
  const billed = usage === undefined ? {} : { usage };
  if (decoded.class === "success")
    return {
      class: "ambiguous",
      code: "empty_output",
      message: "the answer has no text",
      scope: "item",
      ...billed,
      ...rest,
    };
  return {
    class: decoded.class,
    code: decoded.code,
    message: decoded.message,
    scope: decoded.scope,
    ...(decoded.retryAfterMs === undefined ? {} : { retryAfterMs: decoded.retryAfterMs }),
    ...(decoded.isRateLimit === undefined ? {} : { isRateLimit: decoded.isRateLimit }),
    ...(decoded.isRampLimit === undefined ? {} : { isRampLimit: decoded.isRampLimit }),
    ...(decoded.isOverload === undefined ? {} : { isOverload: decoded.isOverload }),
    ...(decoded.isLimitNamed === undefined ? {} : { isLimitNamed: decoded.isLimitNamed }),
    ...(decoded.member === undefined ? {} : { member: decoded.member }),
    ...(decoded.servedTier === undefined ? {} : { servedTier: decoded.servedTier }),
    ...(decoded.requestId === undefined ? {} : { requestId: decoded.requestId }),
    ...(decoded.reasoning === undefined ? {} : { reasoning: decoded.reasoning }),
    ...billed,
    ...rest,
  };
}

/** An attempt whose answer has one output for each of the inputs that were asked for; of any other answer, that it is not one. */
export function withCount(result: AttemptResult, asked: number | undefined): AttemptResult {
  const found = result.output?.values.length ?? asked;
  if (result.class !== "success" || asked === undefined || found === asked) return result;
  const { output: _, text: __, finish: ___, ...rest } = result;
  const message = `expected ${asked} ${asked === 1 ? "answer" : "answers"}, one for each input, got ${found}`;
  return { ...rest, class: "ambiguous", code: "invalid_response", message };
}

/** Whether the provider did not say what an attempt used. */
export function isUsageUnknown(usage: Usage = NO_USAGE): boolean {
  const isTold = usage.inputTokens > 0 || usage.outputTokens > 0 || isCharged(usage);
  return !isTold || usage.isEstimated;
}

/** Whether an attempt may have been billed without an answer, and nobody knows for how much. */
export function isInDoubt({ class: kind, usage }: Pick<AttemptResult, "class" | "usage">): boolean {
  return kind === "ambiguous" && isUsageUnknown(usage);
}

/** Whether it counts as an answer that cannot be used: one that does not fit, an empty one, or a broken one that was billed and is the item's own. */
export function isUnusable({ class: kind, code, usage }: AttemptResult, isOwn: boolean): boolean {
  if (kind === "unfit") return true;
  return kind === "ambiguous" && (code === "empty_output" || (isOwn && !isUsageUnknown(usage)));
}

/** The sum of two attempts' usage. A charge in USD is kept only while it covers all that was used. */
export function addUsage(left: Usage, right: Usage): Usage {
  const chargedUsd = addCharges(left, right);
  return {
    inputTokens: left.inputTokens + right.inputTokens,
    cachedTokens: left.cachedTokens + right.cachedTokens,
    cacheWriteTokens: left.cacheWriteTokens + right.cacheWriteTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    reasoningTokens: left.reasoningTokens + right.reasoningTokens,
    isEstimated: left.isEstimated || right.isEstimated,
    ...(chargedUsd === undefined ? {} : { chargedUsd }),
  };
}

function addCharges(left: Usage, right: Usage): number | undefined {
  if (isNothing(left)) return right.chargedUsd;
  if (isNothing(right)) return left.chargedUsd;
  if (left.chargedUsd === undefined || right.chargedUsd === undefined) return undefined;
  return left.chargedUsd + right.chargedUsd;
}

function isNothing(usage: Usage): boolean {
  return usage.inputTokens === 0 && usage.outputTokens === 0 && usage.chargedUsd === undefined;
}

function holdsAnswer({ text, output, members }: Extract<Decoded, { readonly class: "success" }>): boolean {
  return (
    text !== "" || output !== undefined || members?.tool_calls !== undefined || members?.refusal !== undefined
  );
}

/** The usage of an answer without one: `inputTokens` as perigee counted them, and the output by its characters. */
function estimate(
  inputTokens: number,
  { text, members = {} }: { readonly text: string; readonly members?: AnswerMembers | undefined },
): Usage {
  return {
    inputTokens,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: tokensOfChars(charsOf(text, members)),
    reasoningTokens: 0,
    isEstimated: true,
  };
}

/** Of all that a model wrote, the other candidates included. */
function charsOf(text: string, members: AnswerMembers): number {
  const { reasoning = "", refusal = "", tool_calls, other_candidates: others = [] } = members;
  const calls = jsonOf(tool_calls) ?? "";
  const own = text.length + reasoning.length + refusal.length + calls.length;
  return others.reduce((chars, other) => chars + charsOf(other.text, other), own);
}
