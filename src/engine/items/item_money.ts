/**
 * The money of single requests: reserved at the most that each can cost before it is recorded, settled when it has ended.
 *
 *   reserve -> (intent, sent) -> account     what the attempt took, to its item and to its run
 *           -> giveBack                      it was not sent
 *
 * Hot path: once a request and once an attempt, about 1 us together (bench/jobs/engine.ts).
 */
import type { Clock } from "../../clock.ts";
import type { AttemptResult } from "../../dispatch/attempt.ts";
import type { Budget, Taken } from "../../price/budget.ts";
import { type CostFactors, costOf, hourWriteShare, worstCaseUsd } from "../../price/cost.ts";
import { doubtClause, usdText } from "../../price/money.ts";
import type { PriceBook } from "../../price/price_book.ts";
import { howToPrice } from "../../price/price_sheet.ts";
import { isFree } from "../../price/rates.ts";
import type { RemoteKind } from "../../providers/batches/batch_wire.ts";
import type { OutputLengths } from "../../queue/output_lengths.ts";
import { mostOf, type Shard } from "../../shard/shard.ts";
import { NO_USAGE } from "../../work/outcome.ts";
import { type EndpointKind, hasNoOutput, parseModelId } from "../../work/request.ts";
import { type CostTerms, type EndedAttempt, spentBy } from "../journal/item_cost.ts";
import type { Spent } from "../journal/journal.ts";
import type { CostBounds } from "./cost_bounds.ts";
import type { HeldLines } from "./holds.ts";
import type { ItemCall } from "./item_call.ts";

/** `wait`: others in flight hold the money or the trust, and end; `exhausted`: a cap leaves no money; `unpriced`: the price is not known. */
export type MoneyAnswer = "ok" | "wait" | "exhausted" | "unpriced";

/** So many items of what was measured. */
interface ArrivedItems extends Pick<Shard, "inputTokens" | "maxOutputTokens" | "most"> {
  /** 0 when absent. */
  readonly from?: number;
  readonly count: number;
}

const PLAIN: CostFactors = { factor: 1, laneFactor: 1 };
const NOTHING: Taken = { billedUsd: 0, ambiguousUsd: 0 };

/** What holds the items of a model that no cap can bound, and what to do. */
export function unpriced(model: string): HeldLines {
  const provider = parseModelId(model)?.provider ?? model;
  const message = `no price is known for ${model}, so a cost cap cannot bound it: ${howToPrice(model)}`;
  return { reason: "price_unknown", provider, model, message };
}

/** What bounds the output of a request; undefined for kinds without output. */
function limitName(kind: EndpointKind | undefined): string | undefined {
  if (hasNoOutput(kind)) return undefined;
  return kind === "completion" ? "max_tokens" : "max_output_tokens";
}

/** One for an engine. */
export class ItemMoney {
  readonly #clock: Clock;
  readonly #prices: PriceBook;
  readonly #bounds: CostBounds;
  readonly #lengths: OutputLengths;

  constructor(clock: Clock, prices: PriceBook, bounds: CostBounds, lengths: OutputLengths) {
    this.#lengths = lengths;
    this.#clock = clock;
    this.#prices = prices;
    this.#bounds = bounds;
  }

  /** Holds the most that one attempt may cost, in realtime or in a batch; nothing changes when it is held already. */
  reserve(call: ItemCall, tier: "realtime" | RemoteKind = "realtime"): MoneyAnswer {
    if (call.reservation !== undefined) return "ok";
    const { budget, allowsUnbounded } = call.owner.settings;
    const mostUsd =
      tier === "realtime"
        ? this.#boundOf(call.model, call.most)
        : this.mostInBatchUsd(call.model, call.most, tier);
    if (mostUsd === undefined && budget.isCapped && !allowsUnbounded) return "unpriced";
    const isBounded = budget.isCapped && mostUsd !== undefined && mostUsd > 0;
    if (isBounded && !this.#bounds.mayBegin(call.model)) return "wait";
    const reserved = budget.reserve(mostUsd ?? 0);
    if (!reserved.ok) return reserved.reason;
    call.reservation = reserved.reservation;
    call.boundFactor = this.#bounds.factorOf(call.model);
    if (isBounded) call.bounded = this.#bounds.begun(call.model, call.maxOutputTokens > 0);
    return "ok";
  }

  /**
   * Holds the most that an attempt may cost whose input may be written to a cache for an hour, instead of what is held for it. False
   * where no cap has so much now; then nothing changes.
   */
  raiseForHour(call: ItemCall): boolean {
    const { budget } = call.owner.settings;
    const held = call.reservation;
    const { price } = this.#prices.priceOf(call.model, this.#clock.wallMs());
    if (held === undefined || held.usd === 0 || price === undefined) return true; // nothing is bounded
    const mostUsd = worstCaseUsd(call.most, price, hourWriteShare(price)) * call.boundFactor;
    const more = budget.reserve(mostUsd);
    if (!more.ok) return false;
    budget.settle(held, NOTHING);
    call.reservation = more.reservation;
    return true;
  }

  /** Which cap leaves too little for an item, in words, and what the item needs. */
  capLack(call: ItemCall): { readonly message: string; readonly mostUsd: number } {
    const { budget } = call.owner.settings;
    const mostUsd = this.#boundOf(call.model, call.most) ?? 0;
    const cap = budget.exhausted(mostUsd);
    if (cap === undefined) return { message: "the cost cap leaves no money for what is left", mostUsd };
    const whose = cap.name === undefined ? "the cost cap" : `the cap "${cap.name}"`;
    const left = Math.max(0, cap.capUsd - cap.spentUsd);
    const { billedUsd, ambiguousUsd } = budget;
    const doubt = doubtClause(ambiguousUsd);
    const limit = limitName(call.shard.group.endpoint);
    const isMostDoubt = ambiguousUsd > billedUsd && limit !== undefined;
    const advice = isMostDoubt ? `; a smaller ${limit} puts less in doubt` : "";
    const message = `${whose} of ${usdText(cap.capUsd)} has ${usdText(left)} left${doubt}, and the next request may cost ${usdText(mostUsd)}${advice}`;
    return { message, mostUsd };
  }

  /** The most that the next requests of a shard's items may cost together; undefined when its model has no known price. */
  mostUsdOf({ model, most, count }: Shard): number | undefined {
    let mostUsd = 0;
    for (let index = 0; index < count; index++) {
      const itemUsd = this.#boundOf(model, mostOf(most, index));
      if (itemUsd === undefined) return undefined;
      mostUsd += itemUsd;
    }
    return mostUsd;
  }

  /** Counts what items are expected to take that have arrived under a cap, as far as prices are known. */
  expect(budget: Budget, items: ArrivedItems, modelOf: (index: number) => string): void {
    if (!budget.isCapped) return;
    const { from = 0, count } = items;
    for (let index = from; index < from + count; index += 1) {
      const model = modelOf(index);
      const mostUsd = this.#boundOf(model, mostOf(items.most, index));
      if (mostUsd === undefined) continue;
      const { price } = this.#prices.priceOf(model, this.#clock.wallMs());
      const inputTokens = items.inputTokens[index] as number;
      const outputTokens = this.#lengths.expect(model, items.maxOutputTokens[index] as number);
      const { billedUsd } = costOf({ ...NO_USAGE, inputTokens, outputTokens }, price, PLAIN);
      budget.expect(billedUsd, mostUsd);
    }
  }

  /** The most that an item may cost in a batch or deferred, as its price is now; undefined when the model has no known price. */
  mostInBatchUsd(model: string, most: ItemCall["most"], kind: RemoteKind): number | undefined {
    const mostUsd = this.#boundOf(model, most);
    if (mostUsd === undefined) return undefined;
    const { provider } = this.#prices.priceOf(model, this.#clock.wallMs());
    return mostUsd * this.#prices.laneFactorOf(provider, kind).factor;
  }

  /** Whether so many requests of a model may begin under a cap: its answers have kept their bounds. */
  isProven(model: string): boolean {
    return this.#bounds.isProven(model);
  }

  /** Whether requests of a model are known to cost nothing now. */
  isFree(model: string): boolean {
    return isFree(this.#prices.priceOf(model, this.#clock.wallMs()).price);
  }

  /** Whether that will probably be known soon: a request in flight shows it. */
  isOnTrial(model: string): boolean {
    return this.#bounds.isOnTrial(model);
  }

  /** What an attempt in a batch took. */
  spentInBatch(terms: CostTerms, attempt: Omit<EndedAttempt, "wallMs">): Spent {
    return spentBy(this.#prices, terms, { ...attempt, wallMs: this.#clock.wallMs() });
  }

  /** It was not sent. */
  giveBack(call: ItemCall): void {
    this.#settle(call, NOTHING, false);
  }

  /** Adds what an attempt took to its item and to its run. */
  account(call: ItemCall, result: AttemptResult): void {
    const { model, item } = call;
    const mostUsd = call.reservation?.usd ?? 0;
    const ended = { model, line: item.line, result, mostUsd, wallMs: this.#clock.wallMs() };
    const last = spentBy(this.#prices, call.owner.settings, ended);
    item.took(last);
    const { usage } = result;
    if (usage !== undefined && !usage.isEstimated && usage.outputTokens > 0) {
      const { billedUsd } = last;
      const { outputTokens } = usage;
      const { boundFactor: factor, maxOutputTokens: outputLimit } = call;
      this.#bounds.answered(model, { billedUsd, mostUsd, factor, outputTokens, outputLimit });
    }
    this.#settle(call, last, true);
  }

  /** An upper bound for one attempt; undefined when the model has no known price. */
  #boundOf(model: string, most: ItemCall["most"]): number | undefined {
    const { price } = this.#prices.priceOf(model, this.#clock.wallMs());
    return price === undefined ? undefined : worstCaseUsd(most, price) * this.#bounds.factorOf(model);
  }

  #settle(call: ItemCall, taken: Taken, isSent: boolean): void {
    if (call.reservation !== undefined) call.owner.settings.budget.settle(call.reservation, taken);
    if (call.bounded !== undefined) this.#bounds.ended(call.bounded, isSent);
    call.reservation = undefined;
    call.bounded = undefined;
  }
}
