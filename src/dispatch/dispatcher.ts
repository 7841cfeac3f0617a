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
import type { HeaderBag } from "../providers/provider.ts";
import { NO_USAGE } from "../work/outcome.ts";
import type { AnswerTap } from "./answer_tap.ts";
import { type AttemptResult, addUsage, answered, failedOnWire, isInDoubt, isUnusable } from "./attempt.ts";
import type { AdmitAttempt, Call, Patience } from "./call.ts";
import { Hedge, type HedgedEnd, type Hedging, type MoreMs } from "./hedge.ts";
import { InsertTransport } from "./inserts/insert_transport.ts";
import type { InsertFiles } from "./inserts/inserted_body.ts";
import { decideRetry, decideStart, type RetryDecision, type RetryPolicy } from "./retry.ts";
import { streamedAttempt } from "./streamed_attempt.ts";
import {
  completed,
  type DispatchResult,
  expired,
  failed,
  madeOf,
  stopped,
  type Tally,
  tallyOf,
} from "./tally.ts";
import type { SendOptions, Transport, WireRequest, WireResult } from "./transport.ts";

export type { AttemptResult } from "./attempt.ts";
export type { AdmitAttempt, AttemptTimes, Call, Patience } from "./call.ts";
export type { Made } from "./retry.ts";
export type { DispatchResult } from "./tally.ts";

/** What a dispatcher works with. */
export interface DispatcherOptions<C extends Call = Call> {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly policy: RetryPolicy;
  readonly admission: AdmitAttempt<C>;
  /** Default: no attempt is given up before its time is over. */
  readonly patience?: Patience<C>;
  /** Admits second attempts beside those that `patience` would give up. Default: a new attempt replaces them. */
  readonly hedging?: Hedging<C>;
  /** The files that a call's body names; undefined for one that names none. Default: no body does. */
  readonly filesOf?: ((call: C) => InsertFiles | undefined) | undefined;
}

const NO_HEADERS: HeaderBag = {};

/** Longer than the rounding of a double's milliseconds: a wait that is shorter may not move the clock, and never end. */
const ROUNDING_MS = 0.001;

/** A dispatcher for calls of one kind. */
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
  readonly #filesOf: ((call: C) => InsertFiles | undefined) | undefined;

  constructor(options: DispatcherOptions<C>) {
    this.#clock = options.clock;
    this.#transport = options.transport;
    this.#policy = options.policy;
    this.#admission = options.admission;
    this.#patience = options.patience;
    this.#hedging = options.hedging;
    this.#filesOf = options.filesOf;
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
    if (call.tap !== undefined || this.#hedging?.isFor(call) === true) return this.#runLong(call);
    // One suspended function per call in flight: each more is memory that the garbage collector copies.
    const sentMs = this.#clock.nowMs();
    const { ambiguousAttempts: timeouts } = call;
    const result =
      this.#answer(call) ?? this.#understand(call, await this.#send(call, sentMs, timeouts), sentMs);
    const tally = tallyOf(call);
    this.#count(call, tally, result);
    return this.#goOn(call, tally, result);
  }

  /** With an attempt that is more than a request and its response. */
  async #runLong(call: C): Promise<DispatchResult> {
    const tally = tallyOf(call);
    return this.#goOn(call, tally, await this.#attempt(call, tally));
  }

  /** One attempt, counted, whose answer is passed on as it arrives. */
  async #tapped(call: C, tap: AnswerTap, tally: Tally): Promise<AttemptResult> {
    const sentMs = this.#clock.nowMs();
    const sending = {
      clock: this.#clock,
      transport: this.#transportOf(call),
      ...this.#wireOf(call, sentMs, tally.timeouts),
      onBegun: () => this.#admission.begun(call),
    };
    const result =
      this.#answer(call) ??
      (await streamedAttempt(call, tap, sending, (wire) => this.#understand(call, wire, sentMs)));
    this.#count(call, tally, result);
    return result;
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
    if (call.tap !== undefined) return this.#tapped(call, call.tap, tally);
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
    const wire = await this.#transportOf(call).send(request, { timeoutMs: nextMs(), moreMs: nextMs, signal });
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
    const { request, options } = this.#wireOf(call, sentMs, timeouts);
    return this.#transportOf(call).send(request, options);
  }

  #transportOf(call: C): Transport {
    const files = this.#filesOf?.(call);
    return files === undefined ? this.#transport : new InsertTransport(this.#transport, files);
  }

  #wireOf(
    call: C,
    sentMs: number,
    timeouts: number,
  ): { readonly request: WireRequest; readonly options: SendOptions } {
    const { head, body, cutSignal: signal } = call;
    const endMs = Math.min(call.deadlineMs, sentMs + call.attemptMsMax);
    const attempt = { sentMs, endMs, timeouts };
    const moreMs = (): number => this.#moreMs(call, attempt, this.#clock.nowMs());
    const request = { origin: head.origin, path: head.path, headers: head.headers, body };
    const options =
      this.#patience === undefined
        ? { timeoutMs: endMs - sentMs, signal }
        : { timeoutMs: this.#moreMs(call, attempt, sentMs), moreMs, signal };
    return { request, options };
  }

  /** Until an attempt is to be checked again; 0 when its time is over. */
  #moreMs(
    call: C,
    { sentMs, endMs, timeouts }: { sentMs: number; endMs: number; timeouts: number },
    nowMs: number,
  ): number {
    const leftMs = endMs - nowMs;
    if (leftMs <= ROUNDING_MS || this.#patience === undefined) return 0;
    if (call.tap?.hasBegun === true) return leftMs; // another attempt is not possible any more
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
    if (call.tap?.hasBegun === true) return { retry: false, code: result.code ?? "provider_error" };
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
