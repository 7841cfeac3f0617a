/**
 * What a call has done so far, and the ends that follow from it.
 */
import type { FailureCode } from "../errors.ts";
import type { Provider } from "../providers/provider.ts";
import { type Failure, NO_USAGE, type Outcome, type Usage } from "../work/outcome.ts";
import { type AttemptResult, isInDoubt, isUnusable } from "./attempt.ts";
import type { Made, RetryPolicy } from "./retry.ts";

/** How a call ended: with an outcome, or back for later. Counts and usage include what the call brought with it. */
export type DispatchResult =
  | { readonly kind: "outcome"; readonly outcome: Outcome }
  | (Made & {
      readonly kind: "returned";
      /** `held`: the provider refuses the account, the key or the model. `stopped`: the run is. */
      readonly reason: "held" | "stopped";
      readonly message: string;
      readonly usage: Usage;
    });

interface Called {
  readonly provider: Provider;
  /** Its last answer, if it did not fit. */
  readonly unfitAnswer?: string | undefined;
}

/** What happened in this call so far. */
export interface Tally {
  attempts: number;
  /** Refused by a tier for want of capacity: no attempts, as if they had not been sent. */
  sheds: number;
  uncounted: number;
  ambiguousAttempts: number;
  uncountedAmbiguous: number;
  unusableAnswers: number;
  /** Attempts that timed out; what ambiguous ones of earlier calls ended with is not known, so they are included. */
  timeouts: number;
  usage: Usage;
  /** Whether the last failure counts against the item. */
  isOwn: boolean;
}

/** Hot, as `completed`: their parts are named, because V8 takes most of a microsecond to spread an object. */
export function tallyOf(made: Made): Tally {
  const { attempts, uncounted, ambiguousAttempts, uncountedAmbiguous, unusableAnswers } = made;
  return {
    attempts,
    sheds: 0,
    uncounted,
    ambiguousAttempts,
    uncountedAmbiguous,
    unusableAnswers,
    timeouts: ambiguousAttempts,
    usage: NO_USAGE,
    isOwn: true,
  };
}

/** With a failed attempt, which counts against the item if it is its own. */
export function madeAfter(made: Made, result: AttemptResult, isOwn: boolean): Made {
  if (result.ofTier === "shed") return made;
  const isAmbiguous = isInDoubt(result);
  return {
    attempts: made.attempts + 1,
    uncounted: made.uncounted + (isOwn ? 0 : 1),
    ambiguousAttempts: made.ambiguousAttempts + (isAmbiguous ? 1 : 0),
    uncountedAmbiguous: made.uncountedAmbiguous + (isAmbiguous && !isOwn ? 1 : 0),
    unusableAnswers: made.unusableAnswers + (isUnusable(result, isOwn) ? 1 : 0),
  };
}

export function madeOf(tally: Made): Made {
  const { attempts, uncounted, ambiguousAttempts, uncountedAmbiguous, unusableAnswers } = tally;
  return { attempts, uncounted, ambiguousAttempts, uncountedAmbiguous, unusableAnswers };
}

/** What an outcome says of the attempts. */
function sums({ attempts, ambiguousAttempts, usage }: Tally): {
  readonly attempts: number;
  readonly ambiguousAttempts: number;
  readonly usage: Usage;
} {
  return { attempts, ambiguousAttempts, usage };
}

export function completed(tally: Tally, result: AttemptResult): DispatchResult {
  const { text = "", output = { type: "text", text }, finish = "stop", members, parsed } = result;
  const { attempts, ambiguousAttempts, usage } = tally;
  return {
    kind: "outcome",
    outcome: {
      status: "completed",
      output,
      finish,
      members,
      parsed,
      last: result,
      attempts,
      ambiguousAttempts,
      usage,
    },
  };
}

/** Under at-most-once delivery, what may have been answered is not marked as retryable. */
export function failed(
  call: Called,
  tally: Tally,
  code: FailureCode,
  result: AttemptResult,
  { ambiguousMax }: Pick<RetryPolicy, "ambiguousMax">,
): DispatchResult {
  const mayRepeat = ambiguousMax > 0 || tally.ambiguousAttempts + tally.unusableAnswers === 0;
  const isRetryable = result.class !== "permanent" && code !== "schema_unmet" && mayRepeat;
  const failed = failureOf(call, tally, code, result.message, isRetryable, result.status);
  const { reasoning } = result;
  const failure = reasoning === undefined ? failed : { ...failed, reasoning };
  return { kind: "outcome", outcome: { status: "failed", failure, last: result, ...sums(tally) } };
}

export function expired(call: Called, tally: Tally, message: string, status?: number): DispatchResult {
  const text = `the deadline passed; last: ${message}`;
  const failure = failureOf(call, tally, "expired", text, true, status);
  return { kind: "outcome", outcome: { status: "expired", failure, ...sums(tally) } };
}

export function stopped(tally: Tally): DispatchResult {
  return {
    kind: "returned",
    reason: "stopped",
    message: "the run stopped",
    ...madeOf(tally),
    usage: tally.usage,
  };
}

function failureOf(
  call: Called,
  tally: Tally,
  code: FailureCode,
  message: string,
  retryable: boolean,
  status: number | undefined,
): Failure {
  return {
    code,
    message,
    retryable,
    attempts: tally.attempts,
    ambiguous_attempts: tally.ambiguousAttempts,
    provider: call.provider.settings.name,
    ...(call.unfitAnswer === undefined ? {} : { answer: call.unfitAnswer }),
    ...(status === undefined ? {} : { provider_status: status }),
  };
}
