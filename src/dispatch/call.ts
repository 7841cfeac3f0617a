/**
 * A call as the dispatcher takes it, and what its owner decides about its attempts.
 */
import type { Provider, WireHead } from "../providers/provider.ts";
import type { AnswerTap } from "./answer_tap.ts";
import type { AttemptResult } from "./attempt.ts";
import type { Made } from "./retry.ts";

/** One item on its way, with what was done for it before this call, e.g. before a restart. Its maker may add what admission needs. */
export interface Call extends Made {
  readonly provider: Provider;
  readonly head: WireHead;
  /** Made by the provider's `encode`; read once per attempt. */
  readonly body: Uint8Array;
  /** Counted; used instead when the provider does not report its usage. */
  readonly inputTokens: number;
  /** Monotonic; Infinity without one. */
  readonly deadlineMs: number;
  /** Milliseconds that one attempt may take: of the lane that has it. */
  readonly attemptMsMax: number;
  /** Of an item whose answer is checked: answers that it has at most. */
  readonly answersMax?: number | undefined;
  /** The last of those that did not fit. */
  readonly unfitAnswer?: string | undefined;
  /** Ends waits between attempts, not attempts: the call is then returned as `stopped`. May be shared by many calls. */
  readonly waitSignal?: AbortSignal;
  /** Cuts the attempt under way: nobody waits for it any more. May be shared by many calls. */
  readonly cutSignal?: AbortSignal;
  /** Who reads the answer while it arrives. */
  readonly tap?: AnswerTap | undefined;
  /** How an attempt ended, by what the call knows of where it went. Default: as the wire and the codec say. */
  judged?(result: AttemptResult): AttemptResult;
  /** Monotonic: when the next attempt is due; set before the wait for it. */
  retryAtMs?: number;
}

/** Port: limits, budget and durable intent. The dispatcher asks it for each attempt but the first. */
export interface AdmitAttempt<C extends Call = Call> {
  /**
   * Resolves when attempt number `made.attempts + 1` may be sent: limits are reserved and the intent is durable.
   * Rejects when the run stops, or when the call's deadline passes before its turn.
   */
  admit(call: C, made: Made): Promise<void>;
  /**
   * Notified after each attempt (the first too), synchronously, before any retry: limits settle and learn here. Returns
   * whether a failure counts against the item; of no meaning for a success.
   */
  attempted(call: C, result: AttemptResult): boolean;
  /** Notified when the first part of an answer has arrived that is read while it arrives, before that part is passed on. */
  begun(call: C): void;
}

/** Port: how long an attempt is worth waiting for. */
export interface Patience<C extends Call = Call> {
  /**
   * Asked when an attempt is sent (`elapsedMs` 0), and again after as many milliseconds as it says; 0 gives the attempt
   * up. `leftMs`: what the attempt still may take; `freshMs`: what another one might take that is sent now.
   */
  patienceMs(call: C, attempt: AttemptTimes): number;
}

/** How long an attempt has taken, and may still take. */
export interface AttemptTimes {
  /** Monotonic. */
  readonly sentMs: number;
  readonly elapsedMs: number;
  readonly leftMs: number;
  readonly freshMs: number;
  /** Attempts before this one that timed out, and those of earlier calls that may have. */
  readonly timeouts: number;
}
