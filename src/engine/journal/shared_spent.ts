/**
 * What requests for several items took, shared among the items by their input tokens.
 *
 * Whole tokens stay whole and add up to the requests': each item gets the difference of the rounded sums up to it. Money is shared
 * exactly. A load of 0 tokens counts as 1.
 *
 * Hot path: 0.3 us an item for each time that something was taken (bench/jobs/embeddings.ts).
 */
import { addSpent } from "./item_cost.ts";
import { NOTHING_SPENT, type Spent } from "./journal.ts";

/** Of the items that share requests. */
export class SpentShares {
  readonly #loads: ArrayLike<number>;
  /** What earlier requests, for others of them, took of each; undefined for nothing. */
  readonly #before: readonly Spent[] | undefined;
  readonly #allTokens: number;
  #taken: Spent = NOTHING_SPENT;
  /** Of what was taken so far; undefined until somebody asks. */
  #shares: readonly Spent[] | undefined;

  /** `loads`: the tokens of each, at least one. */
  constructor(loads: ArrayLike<number>, before?: readonly Spent[]) {
    this.#loads = loads;
    this.#before = before;
    this.#allTokens = tokensOf(loads);
  }

  /** They took so much together. */
  took(spent: Spent): void {
    this.#taken = plus(this.#taken, spent);
    this.#shares = undefined;
  }

  /** The part of one of them in what all take. `place`: from 0. */
  shareOf(place: number): number {
    return Math.max(1, this.#loads[place] as number) / this.#allTokens;
  }

  /** What one of them took, with what was taken before. */
  of(place: number): Spent {
    const before = this.#before?.[place] ?? NOTHING_SPENT;
    if (this.#taken === NOTHING_SPENT) return before;
    this.#shares ??= shareSpent(this.#taken, this.#loads);
    return plus(before, this.#shares[place] as Spent);
  }
}

/** The sum; one of them where the other is nothing. */
export function plus(before: Spent, last: Spent): Spent {
  return before === NOTHING_SPENT ? last : addSpent(before, last);
}

/** One for each of `loads`. */
function shareSpent(total: Spent, loads: ArrayLike<number>): readonly Spent[] {
  const all = tokensOf(loads);
  const shares: Spent[] = [];
  let before = 0;
  for (let place = 0; place < loads.length; place += 1) {
    const load = Math.max(1, loads[place] as number);
    const share = { from: before / all, to: (before + load) / all };
    before += load;
    shares.push(shareOf(total, share, load / all));
  }
  return shares;
}

/** Names each part, because V8 is slow to spread objects with fractions. */
function shareOf(total: Spent, place: Place, share: number): Spent {
  return {
    isEstimated: total.isEstimated,
    inputTokens: whole(total.inputTokens, place),
    cachedTokens: whole(total.cachedTokens, place),
    cacheWriteTokens: whole(total.cacheWriteTokens, place),
    outputTokens: whole(total.outputTokens, place),
    reasoningTokens: whole(total.reasoningTokens, place),
    listUsd: total.listUsd * share,
    usd: total.usd * share,
    billedUsd: total.billedUsd * share,
    ambiguousUsd: total.ambiguousUsd * share,
    priceNumber: total.priceNumber,
  };
}

/** Parts of 1. */
interface Place {
  readonly from: number;
  readonly to: number;
}

function whole(tokens: number, { from, to }: Place): number {
  return tokens === 0 ? 0 : Math.round(tokens * to) - Math.round(tokens * from);
}

function tokensOf(loads: ArrayLike<number>): number {
  let all = 0;
  for (let place = 0; place < loads.length; place += 1) all += Math.max(1, loads[place] as number);
  return all;
}
