/**
 * The dispatcher: takes one admitted call to its end, over as many attempts as the policy allows.
 *
 *   admitted -> attempt -> success ----------------------------------> outcome completed
 *                  |-----> permanent, budget used up, no time left --> outcome failed or expired
 *                  |-----> account stopped, run stopped -------------> returned (the item is kept, without outcome)
 *                  +-----> else: wait -> admit -> attempt
 *
 * The one retry layer. p-retry drives the attempts after a failed first one, `retry.ts` decides, the Clock waits; every
 * attempt passes admission and is told to it. One attempt gets at most half of the time left, so that a retry fits.
 *
 * Hot path: a call that succeeds at once costs 0.7 us on top of the transport and the codec
 * (docs/decisions/0006-transport.md, bench/transport.ts); p-retry is not entered.
 */
import pRetry from "p-retry";
import type { Clock } from "../clock.ts";
import type { FailureCode } from "../errors.ts";
import type { HeaderBag, Provider, WireHead } from "../providers/provider.ts";
import { type Failure, NO_USAGE, type Outcome, type Usage } from "../work/outcome.ts";
import { type AttemptResult, addUsage, answered, failedOnWire } from "./attempt.ts";
import { ATTEMPT_MS_MIN, decideRetry, decideStart, type RetryDecision, type RetryPolicy } from "./retry.ts";
import type { Transport, WireResult } from "./transport.ts";

export type { AttemptResult } from "./attempt.ts";

/** One item on its way; who makes it may add what admission needs. */
export interface Call {
  readonly provider: Provider;
  readonly head: WireHead;
  /** Made by the provider's `encode`; read once per attempt. */
  readonly body: Uint8Array;
  /** Counted; stands in when the provider does not tell its usage. */
  readonly inputTokens: number;
  /** Monotonic; Infinity when there is none. */
  readonly deadlineMs: number;
  /** Requests sent before this call, e.g. before a restart. */
  readonly attempts: number;
  /** Of these, the ones that may have been billed without an answer. */
  readonly ambiguousAttempts: number;
  /** Ends waits between attempts, not attempts: the call is then returned as `stopped`. May be shared by many calls. */
  readonly waitSignal?: AbortSignal;
}

/** What has been done for an item. */
export interface Made {
  readonly attempts: number;
  readonly ambiguousAttempts: number;
}

/** Port: limits, budget and durable intent. The dispatcher asks it for each attempt but the first. */
export interface Admission<C extends Call = Call> {
  /**
   * Resolves when attempt number `made.attempts + 1` may be sent: limits are reserved and the intent is durable.
   * Rejects when the run stops, or when the call's deadline passes before its turn.
   */
  admit(call: C, made: Made): Promise<void>;
  /** Told after each attempt (the first too), synchronously, before any retry: limits settle and learn here. */
  attempted(call: C, result: AttemptResult): void;
}

/** How a call ended: with an outcome, or back for later. Counts and usage include what the call brought with it. */
export type DispatchResult =
  | { readonly kind: "outcome"; readonly outcome: Outcome }
  | {
      readonly kind: "returned";
      /** `quota` and `authentication`: the provider's account is stopped. `stopped`: the run is. */
      readonly reason: "quota" | "authentication" | "stopped";
      readonly message: string;
      readonly attempts: number;
      readonly ambiguousAttempts: number;
      readonly usage: Usage;
    };

export interface DispatcherOptions<C extends Call = Call> {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly policy: RetryPolicy;
  readonly admission: Admission<C>;
  /** One attempt at most. Default 10 minutes. */
  readonly attemptMsMax?: number;
}

const NO_HEADERS: HeaderBag = {};

export function createDispatcher<C extends Call = Call>(options: DispatcherOptions<C>): Dispatcher<C> {
  return new Dispatcher(options);
}

/** What happened in this call so far. */
interface Tally {
  attempts: number;
  ambiguousAttempts: number;
  emptyOutputs: number;
  usage: Usage;
}

function tallyOf(call: Call): Tally {
  const { attempts, ambiguousAttempts } = call;
  return { attempts, ambiguousAttempts, emptyOutputs: 0, usage: NO_USAGE };
}

/** Safe for any number of concurrent calls; holds nothing of them. */
export class Dispatcher<C extends Call = Call> {
  readonly #clock: Clock;
  readonly #transport: Transport;
  readonly #policy: RetryPolicy;
  readonly #admission: Admission<C>;
  readonly #attemptMsMax: number;

  constructor(options: DispatcherOptions<C>) {
    this.#clock = options.clock;
    this.#transport = options.transport;
    this.#policy = options.policy;
    this.#admission = options.admission;
    this.#attemptMsMax = options.attemptMsMax ?? 600_000;
  }

  /**
   * Takes a call to its end; its first attempt must be admitted. Rejects only for faults of ours. When the transport
   * is closed, the attempt in flight is cut and the call is returned as `stopped`.
   */
  async run(call: C): Promise<DispatchResult> {
    const start = decideStart(call, this.#policy);
    if (!start.ok) return this.#refuseStart(call, tallyOf(call), start.code);
    const late = this.#unsent(call, undefined);
    if (late !== undefined) return late;
    // One suspended function per call in flight: each more is memory that the garbage collector copies.
    const sentMs = this.#clock.nowMs();
    const result = this.#answer(call) ?? this.#understand(call, await this.#send(call, sentMs), sentMs);
    const tally = tallyOf(call);
    this.#count(call, tally, result);
    if (result.class === "success") return completed(tally, result);
    const decision = this.#decide(call, tally, result);
    if (!decision.retry) return this.#conclude(call, tally, result, decision.code);
    return this.#retry(call, tally, decision.delayMs);
  }

  async #retry(call: C, tally: Tally, firstDelayMs: number): Promise<DispatchResult> {
    let decision = { retry: true, delayMs: firstDelayMs } as RetryDecision; // widened: it changes inside p-retry
    const again = async (): Promise<DispatchResult> => {
      const delayMs = decision.retry ? decision.delayMs : 0;
      const refused = await this.#admitAfter(call, tally, delayMs);
      if (refused !== undefined) return refused;
      const sentMs = this.#clock.nowMs();
      const result = this.#answer(call) ?? this.#understand(call, await this.#send(call, sentMs), sentMs);
      this.#count(call, tally, result);
      if (result.class === "success") return completed(tally, result);
      throw new AttemptFailed(result);
    };
    try {
      return await pRetry(again, {
        retries: this.#policy.attemptsMax,
        minTimeout: 0,
        factor: 1,
        shouldRetry: ({ error }) => {
          if (!(error instanceof AttemptFailed)) return false;
          decision = this.#decide(call, tally, error.result);
          return decision.retry;
        },
      });
    } catch (error) {
      if (!(error instanceof AttemptFailed) || decision.retry) throw error;
      return this.#conclude(call, tally, error.result, decision.code);
    }
  }

  /** Waits and passes admission; returns how the call ends if it does not come to an attempt. */
  async #admitAfter(call: C, tally: Tally, delayMs: number): Promise<DispatchResult | undefined> {
    const { attempts, ambiguousAttempts } = tally;
    try {
      await this.#clock.sleep(delayMs, { signal: call.waitSignal });
      await this.#admission.admit(call, { attempts, ambiguousAttempts });
    } catch {
      // Admission says no for two reasons only, and the clock tells which.
      if (this.#remainingMs(call) <= 0) return expired(call, tally, "no attempt was admitted in time");
      return stopped(tally);
    }
    return this.#unsent(call, tally);
  }

  /** How an admitted call ends that must not be sent any more; undefined when it may be. */
  #unsent(call: C, tally: Tally | undefined): DispatchResult | undefined {
    if (this.#remainingMs(call) > 0) return undefined;
    const message = "the attempt was admitted too late";
    this.#admission.attempted(call, failedOnWire("not_sent", message, 0));
    return expired(call, tally ?? tallyOf(call), message);
  }

  /** Counts an attempt and tells admission. */
  #count(call: C, tally: Tally, result: AttemptResult): void {
    tally.attempts += 1;
    if (result.class === "ambiguous") tally.ambiguousAttempts += 1;
    if (result.code === "empty_output") tally.emptyOutputs += 1;
    if (result.usage !== undefined)
      tally.usage = tally.usage === NO_USAGE ? result.usage : addUsage(tally.usage, result.usage);
    this.#admission.attempted(call, result);
  }

  #send(call: C, sentMs: number): Promise<WireResult> {
    const { head, body } = call;
    const timeoutMs = Math.max(ATTEMPT_MS_MIN, Math.min(this.#attemptMsMax, (call.deadlineMs - sentMs) / 2));
    return this.#transport.send(
      { origin: head.origin, path: head.path, headers: head.headers, body },
      { timeoutMs },
    );
  }

  #understand(call: C, wire: WireResult, sentMs: number): AttemptResult {
    const { provider, inputTokens } = call;
    const latencyMs = this.#clock.nowMs() - sentMs;
    if (!wire.ok) return failedOnWire(wire.failure, wire.message, latencyMs);
    const { status, headers } = wire;
    const decoded = provider.decode({ status, headers, body: wire.body, wallMs: this.#clock.wallMs() });
    return answered(decoded, { status, learnt: provider.limits(headers), latencyMs, inputTokens });
  }

  /** The answer of an embedded provider; undefined for all others. */
  #answer({ provider, body, inputTokens }: C): AttemptResult | undefined {
    const answer = provider.answerLocally?.(body);
    if (answer === undefined) return undefined;
    const decoded = provider.decode({ ...answer, headers: NO_HEADERS, wallMs: this.#clock.wallMs() });
    return answered(decoded, { status: answer.status, learnt: undefined, latencyMs: 0, inputTokens });
  }

  #decide(call: C, tally: Tally, result: AttemptResult): RetryDecision {
    if (isStopped(result)) return { retry: false, code: "cancelled" };
    const state = { ...tally, remainingMs: this.#remainingMs(call) };
    return decideRetry(state, result, this.#policy, this.#clock.random());
  }

  /** The end of a call whose last attempt failed. */
  #conclude(call: C, tally: Tally, result: AttemptResult, code: FailureCode): DispatchResult {
    if (result.class === "permanent") {
      if (result.scope !== "provider") return failed(call, tally, code, result);
      const reason = result.code === "authentication_failed" ? "authentication" : "quota";
      return { kind: "returned", reason, message: result.message, ...made(tally) };
    }
    if (isStopped(result)) return stopped(tally);
    if (this.#remainingMs(call) <= 0) return expired(call, tally, result.message, result.status);
    return failed(call, tally, code, result);
  }

  /** An item whose attempts before a restart have used up what it may have; its admission is given back. */
  #refuseStart(call: C, tally: Tally, code: FailureCode): DispatchResult {
    const message = `${tally.attempts} requests were sent before a restart, their answers were lost`;
    const result = failedOnWire("not_sent", message, 0);
    this.#admission.attempted(call, result);
    return failed(call, tally, code, result);
  }

  #remainingMs(call: C): number {
    return call.deadlineMs - this.#clock.nowMs();
  }
}

/** How a failed attempt passes through p-retry. */
class AttemptFailed extends Error {
  readonly result: AttemptResult;

  constructor(result: AttemptResult) {
    super(result.message);
    this.name = "AttemptFailed";
    this.result = result;
  }
}

/** The transport was closed under it. */
function isStopped(result: AttemptResult): boolean {
  return result.code === "cancelled";
}

function made(tally: Tally): {
  readonly attempts: number;
  readonly ambiguousAttempts: number;
  readonly usage: Usage;
} {
  return { attempts: tally.attempts, ambiguousAttempts: tally.ambiguousAttempts, usage: tally.usage };
}

function completed(tally: Tally, { text = "", finish }: AttemptResult): DispatchResult {
  const { attempts, ambiguousAttempts, usage } = tally;
  const output =
    finish === "length"
      ? ({ type: "text", text, finish_reason: "length" } as const)
      : ({ type: "text", text } as const);
  return { kind: "outcome", outcome: { status: "completed", output, attempts, ambiguousAttempts, usage } };
}

function failed(call: Call, tally: Tally, code: FailureCode, result: AttemptResult): DispatchResult {
  const failure = failureOf(call, tally, code, result.message, result.class !== "permanent", result.status);
  return { kind: "outcome", outcome: { status: "failed", failure, ...made(tally) } };
}

function expired(call: Call, tally: Tally, message: string, status?: number): DispatchResult {
  const text = `the deadline passed; last: ${message}`;
  const failure = failureOf(call, tally, "expired", text, true, status);
  return { kind: "outcome", outcome: { status: "expired", failure, ...made(tally) } };
}

function stopped(tally: Tally): DispatchResult {
  return { kind: "returned", reason: "stopped", message: "the run stopped", ...made(tally) };
}

function failureOf(
  call: Call,
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
    ...(status === undefined ? {} : { provider_status: status }),
  };
}
