/**
 * A second attempt beside one that hangs, instead of giving that one up.
 *
 *   alone  --patience says that a fresh one is likelier to be answered-->  asked
 *   asked  --admitted: limits, money, intent of its own-------------------> both
 *   asked  --refused: no money, no time, the lane is in trouble----------> alone, which is looked at again after 10 s
 *   asked  --the first ends-----------------------------------------------> withdrawn: nothing is sent
 *   both   --one answers, or refuses the item for its own sake------------> the other is cut: ended
 *   both   --one fails----------------------------------------------------> alone, whichever it is
 *   alone  --answers or fails---------------------------------------------> ended
 *
 * At most two attempts of an item are under way, and once one is in doubt no further one goes beside another. What is cut is in
 * doubt, unless it was answered by then: both are billed, then. Each attempt is told to admission when it ends, an answer that
 * counts last; whether there is a retry is decided when all have ended.
 */
import type { AttemptResult } from "./attempt.ts";
import type { Made } from "./tally.ts";

/** Port: admission of second attempts. */
export interface Hedging<C> {
  /** Whether a call may have a second attempt at all. */
  isFor(call: C): boolean;
  /**
   * Asks for an attempt beside that of `call`; `made` is all before both. Resolves with a call of the same item once limits
   * and money are reserved and its intent is durable, or with undefined when there will be none. Never rejects.
   */
  second(call: C, made: Made): Promise<C | undefined>;
  /** Nothing is to be sent for what was asked: what still waits is refused at once, what is being recorded when it is durable. */
  withdraw(call: C): void;
  /** What was admitted is not sent after all. */
  giveBack(second: C): void;
}

/** What a hedged attempt needs of the dispatcher. */
export interface HedgeParts<C> {
  readonly hedging: Hedging<C>;
  /** Sends and understands; `moreMs` is asked as the transport does, and the signal cuts it. */
  readonly send: (
    call: C,
    how: { readonly moreMs: MoreMs; readonly signal: AbortSignal },
  ) => Promise<AttemptResult>;
  /** Attempts that were made before this one, and those of this one that have ended. */
  readonly made: () => Made;
  /** Counts an attempt that has ended; returns whether a failure is the item's own. */
  readonly count: (call: C, result: AttemptResult) => boolean;
}

/** Milliseconds to go on for, above 0; `patienceMs` is what it would be without a second attempt, 0 to give up. */
export type MoreMs = (leftMs: number, patienceMs: () => number) => number;

export interface HedgedEnd {
  readonly result: AttemptResult;
  /** Whether a failure is the item's own. */
  readonly isOwn: boolean;
}

interface UnderWay<C> {
  readonly call: C;
  readonly cut: AbortController;
}

const LOOK_AGAIN_MS = 10_000;

/** Used once: `run`. */
export class Hedge<C extends { readonly cutSignal?: AbortSignal }> {
  readonly #parts: HedgeParts<C>;
  readonly #call: C;
  readonly #underWay = new Set<UnderWay<C>>();
  #isAsked = false;
  #isOver = false;
  #answer: { readonly call: C; readonly result: AttemptResult } | undefined;
  #failure: HedgedEnd | undefined;
  #resolve: (end: HedgedEnd) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;

  constructor(parts: HedgeParts<C>, call: C) {
    this.#parts = parts;
    this.#call = call;
  }

  /** Takes the admitted attempt to its end. Rejects only for faults of ours. */
  async run(): Promise<HedgedEnd> {
    const { cutSignal } = this.#call;
    const cutAll = (): void => this.#cut();
    cutSignal?.addEventListener("abort", cutAll, { once: true });
    try {
      return await new Promise<HedgedEnd>((resolve, reject) => {
        this.#resolve = resolve;
        this.#reject = reject;
        this.#send(this.#call, (leftMs, patienceMs) => this.#lookAgainMs(leftMs, patienceMs()));
      });
    } finally {
      cutSignal?.removeEventListener("abort", cutAll);
    }
  }

  #send(call: C, moreMs: MoreMs): void {
    const attempt = { call, cut: new AbortController() };
    this.#underWay.add(attempt);
    if (this.#call.cutSignal?.aborted === true) attempt.cut.abort();
    this.#parts.send(call, { moreMs, signal: attempt.cut.signal }).then((result) => {
      this.#underWay.delete(attempt);
      this.#guard(() => this.#ended(call, result));
    }, this.#reject);
  }

  /** The first attempt is looked at. */
  #lookAgainMs(leftMs: number, patienceMs: number): number {
    if (patienceMs > 0) return Math.min(leftMs, patienceMs);
    const isAlone =
      !this.#isRefused && !this.#isAsked && this.#underWay.size === 1 && this.#answer === undefined;
    if (isAlone) void this.#ask();
    return Math.min(leftMs, LOOK_AGAIN_MS);
  }

  async #ask(): Promise<void> {
    const { hedging, made } = this.#parts;
    this.#isAsked = true;
    const second = await hedging.second(this.#call, made());
    this.#isAsked = false;
    this.#guard(() => {
      if (second !== undefined && this.#answer === undefined && !this.#isRefused) {
        this.#send(second, (leftMs) => leftMs);
        return;
      }
      if (second !== undefined) hedging.giveBack(second);
      this.#end();
    });
  }

  #ended(call: C, result: AttemptResult): void {
    if (result.class === "success" && this.#answer === undefined) {
      this.#answer = { call, result };
      this.#cut();
    } else {
      const isOwn = this.#parts.count(call, result);
      if (!this.#isRefused) this.#failure = { result, isOwn };
      if (this.#isRefused) this.#cut();
    }
    if (this.#isAsked) this.#parts.hedging.withdraw(this.#call);
    this.#end();
  }

  /** Whether the item was refused for its own sake, which another attempt would be as well. */
  get #isRefused(): boolean {
    return this.#failure?.result.class === "permanent" && this.#failure.isOwn;
  }

  /** Ends when nothing is under way any more, nor, while the item needs it, about to be. */
  #end(): void {
    if (this.#underWay.size > 0) return;
    if (this.#isAsked && this.#answer === undefined && !this.#isRefused) return;
    const { count } = this.#parts;
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
