/**
 * The provider's own book: every answer that was made, by whom it was asked for and what it is billed, and what became of each batch.
 *
 * Money is counted in whole numbers: a price in pico-USD a token, a factor in thousandths; an answer is rounded once to
 * nano-USD, half up.
 */

export type FakeTier = "realtime" | "flex" | "batch" | "deferred";

/** USD for a million tokens. */
export interface FakePrice {
  readonly inputUsd: number;
  readonly outputUsd: number;
}

/** One answer. */
export interface Charge {
  readonly prompt: string;
  /** The id of the request in its batch; undefined in realtime. */
  readonly id: string | undefined;
  readonly batch: string | undefined;
  readonly model: string;
  readonly tier: FakeTier;
  readonly status: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** 0 for what is not billed. */
  readonly nanoUsd: number;
  readonly atMs: number;
}

export interface LedgerBatch {
  readonly id: string;
  readonly key: string;
  readonly createdMs: number;
  items: number;
  cancelledMs: number | undefined;
  /** Undefined while it is open. */
  end: string | undefined;
  endMs: number | undefined;
  deletedMs: number | undefined;
  /** How often each key asked for it; keys of other workspaces got a 404. */
  readonly polls: Map<string, number>;
}

/** What an answer is billed, in nano-USD. */
export function nanoUsdOf(
  { inputUsd, outputUsd }: FakePrice,
  tokens: { readonly inputTokens: number; readonly outputTokens: number },
  factorThousandths: number,
): number {
  const picoUsd =
    Math.round(inputUsd * 1e6) * tokens.inputTokens + Math.round(outputUsd * 1e6) * tokens.outputTokens;
  return Math.floor((picoUsd * factorThousandths + 500_000) / 1_000_000);
}

export class Ledger {
  readonly charges: Charge[] = [];
  readonly batches = new Map<string, LedgerBatch>();
  /** Calls by kind. */
  readonly calls = new Map<string, number>();
  /** Enters what time has brought; called before anything is read. */
  readonly #settle: () => void;
  #indexed = 0;
  readonly #byPrompt = new Map<string, Charge[]>();

  constructor(settle: () => void) {
    this.#settle = settle;
  }

  /** All answers to a prompt, in the order in which they were made. */
  answersTo(prompt: string): readonly Charge[] {
    return this.byPrompt().get(prompt) ?? [];
  }

  byPrompt(): ReadonlyMap<string, readonly Charge[]> {
    this.#settle();
    for (; this.#indexed < this.charges.length; this.#indexed += 1) {
      const charge = this.charges[this.#indexed] as Charge;
      const others = this.#byPrompt.get(charge.prompt);
      if (others === undefined) this.#byPrompt.set(charge.prompt, [charge]);
      else others.push(charge);
    }
    return this.#byPrompt;
  }

  /** Of all answers, or of those of one tier. */
  sums(tier?: FakeTier): LedgerSums {
    this.#settle();
    const sums = { answers: 0, billed: 0, inputTokens: 0, outputTokens: 0, nanoUsd: 0 };
    for (const charge of this.charges) {
      if (tier !== undefined && charge.tier !== tier) continue;
      sums.answers += 1;
      if (charge.nanoUsd === 0) continue;
      sums.billed += 1;
      sums.inputTokens += charge.inputTokens;
      sums.outputTokens += charge.outputTokens;
      sums.nanoUsd += charge.nanoUsd;
    }
    return sums;
  }

  /** Batches that were not cancelled, in the order of their creation. */
  get keptBatches(): readonly LedgerBatch[] {
    this.#settle();
    return [...this.batches.values()].filter(({ cancelledMs }) => cancelledMs === undefined);
  }
}

/** Tokens and money of what is billed. */
export interface LedgerSums {
  readonly answers: number;
  readonly billed: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly nanoUsd: number;
}
