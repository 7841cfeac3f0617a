/**
 * The dispatcher: takes one admitted call to its end, over as many attempts as the policy allows.
 *
 *   admitted -> attempt -> success ----------------------------------> outcome completed
 *                  |-----> does not fit its schema, answers used up -> outcome failed
 *                  |-----> refused for its own sake, tries used up --> outcome failed
 *                  |-----> no attempt fits before the deadline ------> waits for it -> outcome expired
 *                  |-----> account or model stopped, run stopped ----> returned (the item is kept, without outcome)
 *                  +-----> else: wait -> admit -> attempt
 *   attempt: one request, or with `hedging` a second one beside a first that hangs (hedge.ts)
 *
 * The only retry layer: `retry.ts` decides, the Clock waits. Every attempt
 * passes admission, and has all the time that is left, up to its provider's time-out, unless `patience` gives it up before.
 *
 * Hot path: a call that succeeds at once costs 0.7 us on top of the transport and the codec
 * (docs/decisions/0006-transport.md, bench/jobs/transport.ts).
 */
import type { Clock } from "../clock.ts";
import { debug } from "../debug.ts";
import type { FailureCode } from "../errors.ts";
import type { HeaderBag, Provider, WireHead } from "../providers/provider.ts";
import { NO_USAGE } from "../work/outcome.ts";
import { type AttemptResult, addUsage, answered, failedOnWire, isInDoubt, isUnusable } from "./attempt.ts";
import { Hedge, type HedgedEnd, type Hedging, type MoreMs } from "./hedge.ts";
import { decideRetry, decideStart, type RetryDecision, type RetryPolicy } from "./retry.ts";
import {
  completed,
  type DispatchResult,
  expired,
  failed,
  type Made,
  madeOf,
  stopped,
  type Tally,
  tallyOf,
} from "./tally.ts";
import type { Transport, WireResult } from "./transport.ts";

export type { AttemptResult } from "./attempt.ts";
export type { DispatchResult, Made } from "./tally.ts";

/** One item on its way; who makes it may add what admission needs. */
export interface Call {
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
  /** Made before this call, e.g. before a restart. */
  readonly attempts: number;
  /** Of these, the ones that do not count against the item. */
  readonly uncounted: number;
  /** Of all, the ones that may have been billed without an answer. */
  readonly ambiguousAttempts: number;
  /** Of these, the ones that do not count against the item. */
  readonly uncountedAmbiguous: number;
  /** Answers that could not be used: empty ones, those that did not fit, and billed ones that were broken and count against the item. */
  readonly unusableAnswers: number;
  /** Of an item whose answer is checked: answers that it has at most. */
  readonly answersMax?: number | undefined;
  /** The last of those that did not fit. */
  readonly unfitAnswer?: string | undefined;
  /** Ends waits between attempts, not attempts: the call is then returned as `stopped`. May be shared by many calls. */
  readonly waitSignal?: AbortSignal;
  /** Cuts the attempt under way: nobody waits for it any more. May be shared by many calls. */
  readonly cutSignal?: AbortSignal;
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
}

/** Port: how long an attempt is worth waiting for. */
export interface Patience<C extends Call = Call> {
  /**
   * Asked when an attempt is sent (`elapsedMs` 0), and again after as many milliseconds as it says; 0 gives the attempt
   * up. `leftMs`: what the attempt still may take; `freshMs`: what another one might take that is sent now.
   */
  patienceMs(call: C, attempt: AttemptTimes): number;
}

export interface AttemptTimes {
  /** Monotonic. */
  readonly sentMs: number;
  readonly elapsedMs: number;
  readonly leftMs: number;
  readonly freshMs: number;
  /** Attempts before this one that timed out, and those of earlier calls that may have. */
  readonly timeouts: number;
}

export interface DispatcherOptions<C extends Call = Call> {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly policy: RetryPolicy;
  readonly admission: AdmitAttempt<C>;
  /** Default: no attempt is given up before its time is over. */
  readonly patience?: Patience<C>;
  /** Admits second attempts beside those that `patience` would give up. Default: a new attempt replaces them. */
  readonly hedging?: Hedging<C>;
}

const NO_HEADERS: HeaderBag = {};

/** Longer than the rounding of a double's milliseconds: a wait that is shorter may not move the clock, and never end. */
const ROUNDING_MS = 0.001;

export function createDispatcher<C extends Call = Call>(options: DispatcherOptions<C>): Dispatcher<C> {
  return new Dispatcher(options);
}

/** Safe for any number of concurrent calls; holds nothing of them. */
export class Dispatcher<C extends Call = Call> {
  readonly #clock: Clock;
  readonly #transport: Transport;
  readonly #policy: RetryPolicy;
  readonly #admission: AdmitAttempt<C>;
  readonly #patience: Patience<C> | undefined;
  readonly #hedging: Hedging<C> | undefined;

  constructor(options: DispatcherOptions<C>) {
    this.#clock = options.clock;
    this.#transport = options.transport;
    this.#policy = options.policy;
    this.#admission = options.admission;
    this.#patience = options.patience;
    this.#hedging = options.hedging;
  }

  /**
   * Takes a call to its end; its first attempt must be admitted. Rejects only for faults of perigee. When the transport
   * is closed or the call is cut, the attempt in flight is ended and the call is returned as `stopped`.
   */
  async run(call: C): Promise<DispatchResult> {
    const start = decideStart(call, this.#policy);
    if (!start.ok) return this.#refuseStart(call, tallyOf(call), start.code);
    const late = this.#unsent(call, undefined);
    if (late !== undefined) return late;
    if (this.#hedging?.isFor(call) === true) return this.#runHedged(call, this.#hedging);
    // One suspended function per call in flight: each more is memory that the garbage collector copies.
    const sentMs = this.#clock.nowMs();
    const { ambiguousAttempts: timeouts } = call;
    const result =
      this.#answer(call) ?? this.#understand(call, await this.#send(call, sentMs, timeouts), sentMs);
    const tally = tallyOf(call);
    this.#count(call, tally, result);
    return this.#goOn(call, tally, result);
  }

  async #runHedged(call: C, hedging: Hedging<C>): Promise<DispatchResult> {
    const tally = tallyOf(call);
    return this.#goOn(call, tally, await this.#hedged(call, tally, hedging));
  }

  /** After the first attempt. */
  #goOn(call: C, tally: Tally, result: AttemptResult): DispatchResult | Promise<DispatchResult> {
    if (result.class === "success") return completed(tally, result);
    const decision = this.#decide(call, tally, result);
    if (decision.retry) return this.#retry(call, tally, decision.delayMs, result);
    return this.#conclude(call, tally, result, decision.code);
  }

  async #retry(call: C, tally: Tally, firstDelayMs: number, first: AttemptResult): Promise<DispatchResult> {
    let result = first;
    for (let delayMs = firstDelayMs; ; ) {
      const refused = await this.#admitAfter(call, tally, delayMs, result);
      if (refused !== undefined) return refused;
      result = await this.#attempt(call, tally);
      if (result.class === "success") return completed(tally, result);
      const decision = this.#decide(call, tally, result);
      if (!decision.retry) return this.#conclude(call, tally, result, decision.code);
      delayMs = decision.delayMs;
    }
  }

  /** One more attempt, counted. */
  async #attempt(call: C, tally: Tally): Promise<AttemptResult> {
    if (this.#hedging?.isFor(call) === true) return this.#hedged(call, tally, this.#hedging);
    const sentMs = this.#clock.nowMs();
    const { timeouts } = tally;
    const result =
      this.#answer(call) ?? this.#understand(call, await this.#send(call, sentMs, timeouts), sentMs);
    this.#count(call, tally, result);
    return result;
  }

  /** The same, with a second attempt beside it if it hangs. */
  async #hedged(call: C, tally: Tally, hedging: Hedging<C>): Promise<AttemptResult> {
    const local = this.#answer(call);
    if (local !== undefined) {
      this.#count(call, tally, local);
      return local;
    }
    const hedge = new Hedge<C>(
      hedging,
      {
        send: (each, how) => this.#sendBeside(each, tally, how),
        made: () => madeOf(tally),
        count: (each, result) => {
          this.#count(each, tally, result);
          return tally.isOwn;
        },
      },
      call,
    );
    const { result, isOwn }: HedgedEnd = await hedge.run();
    tally.isOwn = isOwn;
    return result;
  }

  async #sendBeside(
    call: C,
    tally: Tally,
    { moreMs, signal }: { readonly moreMs: MoreMs; readonly signal: AbortSignal },
  ): Promise<AttemptResult> {
    const { head, body } = call;
    const sentMs = this.#clock.nowMs();
    const endMs = Math.min(call.deadlineMs, sentMs + call.attemptMsMax);
    const nextMs = (): number => {
      const nowMs = this.#clock.nowMs();
      if (endMs - nowMs <= ROUNDING_MS) return 0;
      const attempt = { sentMs, endMs, timeouts: tally.timeouts };
      return moreMs(endMs - nowMs, () => this.#moreMs(call, attempt, nowMs));
    };
    const request = { origin: head.origin, path: head.path, headers: head.headers, body };
    const wire = await this.#transport.send(request, { timeoutMs: nextMs(), moreMs: nextMs, signal });
    return this.#understand(call, wire, sentMs);
  }

  /** Waits and passes admission; returns how the call ends if no attempt follows. */
  async #admitAfter(
    call: C,
    tally: Tally,
    delayMs: number,
    { message, status }: AttemptResult,
  ): Promise<DispatchResult | undefined> {
    call.retryAtMs = this.#clock.nowMs() + delayMs;
    try {
      await this.#clock.sleep(delayMs, { signal: call.waitSignal });
      await this.#admission.admit(call, madeOf(tally));
    } catch {
      // Admission says no for two reasons only, and the clock shows which.
      if (this.#remainingMs(call) <= 0) return expired(call, tally, message, status);
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

  /** Counts an attempt and notifies admission. */
  #count(call: C, tally: Tally, result: AttemptResult): void {
    if (result.ofTier === "shed") tally.sheds += 1;
    else tally.attempts += 1;
    const isOpen = isInDoubt(result);
    if (isOpen) tally.ambiguousAttempts += 1;
    if (result.code === "timeout") tally.timeouts += 1;
    if (result.usage !== undefined)
      tally.usage = tally.usage === NO_USAGE ? result.usage : addUsage(tally.usage, result.usage);
    tally.isOwn = this.#admission.attempted(call, result);
    if (isUnusable(result, tally.isOwn)) tally.unusableAnswers += 1;
    if (tally.isOwn || result.class === "success" || result.ofTier === "shed") return;
    tally.uncounted += 1;
    if (isOpen) tally.uncountedAmbiguous += 1;
  }

  #send(call: C, sentMs: number, timeouts: number): Promise<WireResult> {
    const { head, body, cutSignal: signal } = call;
    const endMs = Math.min(call.deadlineMs, sentMs + call.attemptMsMax);
    const attempt = { sentMs, endMs, timeouts };
    const moreMs = (): number => this.#moreMs(call, attempt, this.#clock.nowMs());
    return this.#transport.send(
      { origin: head.origin, path: head.path, headers: head.headers, body },
      this.#patience === undefined
        ? { timeoutMs: endMs - sentMs, signal }
        : { timeoutMs: this.#moreMs(call, attempt, sentMs), moreMs, signal },
    );
  }

  /** Until an attempt is to be checked again; 0 when its time is over. */
  #moreMs(
    call: C,
    { sentMs, endMs, timeouts }: { sentMs: number; endMs: number; timeouts: number },
    nowMs: number,
  ): number {
    const leftMs = endMs - nowMs;
    if (leftMs <= ROUNDING_MS || this.#patience === undefined) return 0;
    const freshMs = Math.min(call.deadlineMs - nowMs, call.attemptMsMax);
    const times = { sentMs, elapsedMs: nowMs - sentMs, leftMs, freshMs, timeouts };
    const moreMs = Math.min(leftMs, this.#patience.patienceMs(call, times));
    return moreMs > ROUNDING_MS ? moreMs : 0;
  }

  #understand(call: C, wire: WireResult, sentMs: number): AttemptResult {
    const result = this.#read(call, wire, this.#clock.nowMs() - sentMs);
    return call.judged === undefined ? result : call.judged(result);
  }

  #read({ provider, inputTokens }: C, wire: WireResult, latencyMs: number): AttemptResult {
    if (!wire.ok) return failedOnWire(wire.failure, wire.message, latencyMs);
    const { status, headers } = wire;
    const decoded = provider.decode({ status, headers, body: wire.body, wallMs: this.#clock.wallMs() });
    return answered(decoded, { status, learnt: provider.limits(headers), latencyMs, inputTokens });
  }

  /** The answer of an embedded provider; undefined for all others. */
  #answer(call: C): AttemptResult | undefined {
    const { provider } = call;
    if (provider.answerLocally === undefined) return undefined;
    const { body, inputTokens } = call;
    const answer = provider.answerLocally(body);
    const decoded = provider.decode({ ...answer, headers: NO_HEADERS, wallMs: this.#clock.wallMs() });
    const result = answered(decoded, { status: answer.status, learnt: undefined, latencyMs: 0, inputTokens });
    return call.judged === undefined ? result : call.judged(result);
  }

  #decide(call: C, tally: Tally, result: AttemptResult): RetryDecision {
    if (isStopped(result)) return { retry: false, code: "cancelled" };
    const state = { ...tally, answersMax: call.answersMax, remainingMs: this.#remainingMs(call) };
    const decision = decideRetry(state, result, this.#policy, this.#clock.random());
    debug.attempts?.(`${result.code} after request ${tally.attempts}: ${decisionText(decision)}`);
    return decision;
  }

  /** The end of a call whose last attempt failed. */
  async #conclude(call: C, tally: Tally, result: AttemptResult, code: FailureCode): Promise<DispatchResult> {
    if (result.class === "permanent") {
      if (result.scope === "item" || tally.isOwn) return failed(call, tally, code, result, this.#policy);
      return {
        kind: "returned",
        reason: "held",
        message: result.message,
        ...madeOf(tally),
        usage: tally.usage,
      };
    }
    if (isStopped(result)) return stopped(tally);
    if (code !== "expired") return failed(call, tally, code, result, this.#policy);
    // No attempt fits any more, but the time is the item's: it does not end before its deadline.
    const isLeft = await this.#clock
      .sleep(Math.max(0, this.#remainingMs(call)), { signal: call.waitSignal })
      .then(
        () => false,
        () => true,
      );
    return isLeft && this.#remainingMs(call) > 0
      ? stopped(tally)
      : expired(call, tally, result.message, result.status);
  }

  /** An item whose attempts before a restart have used up what it may have; its admission is returned. */
  #refuseStart(call: C, tally: Tally, code: FailureCode): DispatchResult {
    const message = `tried ${tally.attempts} times before a restart, the answers were lost`;
    const result = failedOnWire("not_sent", message, 0);
    this.#admission.attempted(call, result);
    return failed(call, tally, code, result, this.#policy);
  }

  #remainingMs(call: C): number {
    return call.deadlineMs - this.#clock.nowMs();
  }
}

function isStopped(result: AttemptResult): boolean {
  return result.code === "cancelled"; // the transport was closed under it, or it was cut
}

function decisionText(decision: RetryDecision): string {
  return decision.retry ? `repeated after ${Math.ceil(decision.delayMs)} ms` : `ends as ${decision.code}`;
}
