/**
 * Sends a second attempt beside one that hangs, instead of giving up the first one.
 *
 *   alone      --patience ends: a new attempt would probably be answered sooner--> requested
 *   requested  --admitted: limits, money, an intent of its own--------------------> both
 *   requested  --refused: no money, no time, the lane is in trouble---------------> alone; requested again after 10 s
 *   requested  --the first ends---------------------------------------------------> withdrawn: nothing is sent
 *   both       --one answers, or refuses the item for its own sake----------------> the other is aborted: ended
 *   both       --one of them fails------------------------------------------------> alone
 *   alone      --answers or fails-------------------------------------------------> ended
 *
 * At most two attempts of an item are under way, and after one is in doubt no other is sent beside one. An aborted attempt is
 * in doubt, unless its answer arrived first: then both are billed. Admission is notified of the end of each attempt, and last
 * of the answer that counts. Whether to retry is decided when all attempts have ended.
 */
import type { AttemptResult } from "./attempt.ts";
import type { Made } from "./retry.ts";

/** Port: admission of second attempts. `withdraw` may be called while `second` waits. */
export interface Hedging<C> {
  /** Whether a call may have a second attempt at all. */
  isFor(call: C): boolean;
  /**
   * Requests an attempt beside that of `call`, at most one at a time; `made` counts the attempts before both. Resolves with a
   * call of the same item when limits and money are reserved and its intent is durable, or with undefined if it is refused.
   * Never rejects.
   */
  second(call: C, made: Made): Promise<C | undefined>;
  /** Withdraws the request for a second attempt of `call`. It is refused at once, or when its intent is durable. */
  withdraw(call: C): void;
  /** Returns what an admitted second attempt has reserved: it will not be sent. */
  giveBack(second: C): void;
}

/** What a hedge needs from the dispatcher. */
export interface HedgedAttempts<C> {
  /** Sends one attempt and reads its answer. The transport calls `moreMs` when the time runs out; `signal` aborts it. */
  readonly send: (
    call: C,
    how: { readonly moreMs: MoreMs; readonly signal: AbortSignal },
  ) => Promise<AttemptResult>;
  /** The attempts of the item that have ended. */
  readonly made: () => Made;
  /** Counts an attempt that has ended; returns whether its failure is the item's own. */
  readonly count: (call: C, result: AttemptResult) => boolean;
}

/**
 * Milliseconds for which an attempt continues, above 0. `leftMs` is the time until its end; `patienceMs` returns what it would
 * be without hedging, 0 to give up.
 */
export type MoreMs = (leftMs: number, patienceMs: () => number) => number;

/** How the attempts have ended together: with the answer, or with the last failure. */
export interface HedgedEnd {
  readonly result: AttemptResult;
  /** Whether the failure is the item's own. */
  readonly isOwn: boolean;
}

/** An attempt without an end yet. */
interface UnderWay<C> {
  readonly call: C;
  readonly cut: AbortController;
}

const REQUEST_EVERY_MS = 10_000;

/** For one attempt of the dispatcher; call `run` once. */
export class Hedge<C extends { readonly cutSignal?: AbortSignal }> {
  readonly #hedging: Hedging<C>;
  readonly #attempts: HedgedAttempts<C>;
  readonly #call: C;
  readonly #underWay = new Set<UnderWay<C>>();
  #isRequested = false;
  #isOver = false;
  #answer: { readonly call: C; readonly result: AttemptResult } | undefined;
  #failure: HedgedEnd | undefined;
  #resolve: (end: HedgedEnd) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;

  constructor(hedging: Hedging<C>, attempts: HedgedAttempts<C>, call: C) {
    this.#hedging = hedging;
    this.#attempts = attempts;
    this.#call = call;
  }

  /** Takes the admitted attempt to its end. Rejects only for internal faults. */
  async run(): Promise<HedgedEnd> {
    const { cutSignal } = this.#call;
    const cutAll = (): void => this.#cut();
    cutSignal?.addEventListener("abort", cutAll, { once: true });
    try {
      return await new Promise<HedgedEnd>((resolve, reject) => {
        this.#resolve = resolve;
        this.#reject = reject;
        this.#send(this.#call, (leftMs, patienceMs) => this.#moreMs(leftMs, patienceMs()));
      });
    } finally {
      cutSignal?.removeEventListener("abort", cutAll);
    }
  }

  #send(call: C, moreMs: MoreMs): void {
    const attempt = { call, cut: new AbortController() };
    this.#underWay.add(attempt);
    if (this.#call.cutSignal?.aborted === true) attempt.cut.abort();
    this.#attempts.send(call, { moreMs, signal: attempt.cut.signal }).then((result) => {
      this.#underWay.delete(attempt);
      this.#guard(() => this.#ended(call, result));
    }, this.#reject);
  }

  /** For how long the first attempt continues; requests a second one where patience has ended. */
  #moreMs(leftMs: number, patienceMs: number): number {
    if (patienceMs > 0) return Math.min(leftMs, patienceMs);
    const isAlone =
      !this.#isRefused && !this.#isRequested && this.#underWay.size === 1 && this.#answer === undefined;
    if (isAlone) void this.#requestSecond();
    return Math.min(leftMs, REQUEST_EVERY_MS);
  }

  async #requestSecond(): Promise<void> {
    this.#isRequested = true;
    const second = await this.#hedging.second(this.#call, this.#attempts.made());
    this.#isRequested = false;
    this.#guard(() => {
      if (second !== undefined && this.#answer === undefined && !this.#isRefused) {
        this.#send(second, (leftMs) => leftMs);
        return;
      }
      if (second !== undefined) this.#hedging.giveBack(second);
      this.#end();
    });
  }

  #ended(call: C, result: AttemptResult): void {
    if (result.class === "success" && this.#answer === undefined) {
      this.#answer = { call, result };
      this.#cut();
    } else {
      const isOwn = this.#attempts.count(call, result);
      if (!this.#isRefused) this.#failure = { result, isOwn };
      if (this.#isRefused) this.#cut();
    }
    if (this.#isRequested) this.#hedging.withdraw(this.#call);
    this.#end();
  }

  /** Whether the item was refused for its own sake: another attempt would be refused as well. */
  get #isRefused(): boolean {
    return this.#failure?.result.class === "permanent" && this.#failure.isOwn;
  }

  /** Resolves `run` when no attempt is under way, and the item does not need a requested one. */
  #end(): void {
    if (this.#underWay.size > 0) return;
    if (this.#isRequested && this.#answer === undefined && !this.#isRefused) return;
    const { count } = this.#attempts;
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#answer !== undefined) {
      const { call, result } = this.#answer;
      this.#resolve({ result, isOwn: count(call, result) });
    } else if (this.#failure !== undefined) this.#resolve(this.#failure);
  }

  #cut(): void {
    for (const { cut } of [...this.#underWay]) cut.abort();
  }

  #guard(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#reject(error);
    }
  }
}
