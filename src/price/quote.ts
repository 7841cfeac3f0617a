/**
 * What a piece of work will cost and how long it will take, before anything is sent. Pure: totals, prices and times
 * in, a plain object out, which `perigee quote --json` prints and `engine.quote` returns as it is.
 *
 *   list   = input tokens x input rate + expected output tokens x output rate       (tier of the mean request)
 *   at sla = list x price factor(model, sla, volume of the task)
 *   billed = list x price of the requested tiers over the list price, with the part of the input that is expected from and for the provider's cache at its rates
 *   low, high: each estimate at the ends of its band; those that are learnt are independent, so their distances add as squares
 *   time   = as it is forecast; no sooner than what waits already, where the caller knows it
 *
 * Sums cover the models with a known price; `unpriced_models` names the others. No number is ever NaN.
 */
import type { FailureCode } from "../errors.ts";
import { parseModelId } from "../work/request.ts";
import { type Band, bandOf, partOf } from "./band.ts";
import { counted, roundedUsd } from "./cost.ts";
import { priceFactor, RATE_CARD, type RateCard } from "./factor.ts";
import { type QuotePrice, quotePrice } from "./quote_price.ts";
import {
  type FurtherRequests,
  type QuoteFurtherRequests,
  type QuoteTime,
  shownFurther,
  shownTime,
  type TimeNeeded,
} from "./quote_requests.ts";
import { finishAt, type LanePlan, lanesOf, lastFinish, type QuoteSla } from "./quote_sla.ts";
import { type BasePrice, ratesFor } from "./rates.ts";

/** The source of an expected output. */
export type OutputBasis = "learnt of the system prompt" | "learnt of the model" | "default";

/**
 * Totals of the items of one model. A model may have several rows, for example those items above a tier's start
 * by themselves: each row is priced by its own mean request, and the rows are summed.
 */
export interface ModelTotals {
  /** `<provider>:<name>`. */
  readonly model: string;
  readonly items: number;
  /** As the provider is expected to count them. */
  readonly inputTokens: number;
  readonly inputTokensLow: number;
  readonly inputTokensHigh: number;
  /** Mean price of the requested tiers over the list price. Default 1. */
  readonly tierFactor?: number;
  /** Items whose audio, files or images are not among the tokens. Default 0. */
  readonly itemsUncounted?: number;
  /** Of them, read from and written to the provider's cache. */
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  /** True when the tokenizer of the model is not public. */
  readonly isEstimated: boolean;
  readonly expectedOutputTokens: number;
  readonly outputTokensLow: number;
  readonly outputTokensHigh: number;
  readonly basis: OutputBasis;
  /** Answers that the expected output was learnt from. */
  readonly learntAnswers: number;
  /** For answers that do not fit their schema; their tokens are among those above. Absent: no item is checked. */
  readonly further?: FurtherRequests;
}

export interface QuoteInput {
  readonly totals: readonly ModelTotals[];
  /** The moment of the prices, Unix milliseconds. */
  readonly wallMs: number;
  /** Windows to quote, in minutes. */
  readonly slasMinutes: readonly number[];
  /** The price of a model now; `PriceBook.price` at `wallMs`. */
  readonly price: (model: { readonly provider: string; readonly name: string }) => BasePrice | undefined;
  /** Lines that hold no item and would fail. */
  readonly rejectedLines: number;
  /** What the price factor counts as the volume of the whole work. */
  readonly volumeTokens: number;
  /** How long the work on each model takes, when nothing else waits. */
  readonly times: ReadonlyMap<string, TimeNeeded>;
  /** Seconds until items of a model would be done after what waits already; absent: nothing waits. */
  readonly behindSeconds?: (model: string, items: number, inputTokens: number) => number;
  /** The shortest window, in seconds, that batches alone are expected to keep for the items of a model; absent, Infinity: none. */
  readonly batchedSeconds?: (model: string, slaMinutes: number) => number;
  /** Where the items of a model go at an sla; absent: everything is in realtime. */
  readonly planned?: (model: string, slaMinutes: number) => LanePlan | undefined;
  /** The sla that the work has, one of `slasMinutes`: `billed_usd` is for it. Absent: without one, in realtime. */
  readonly ownSlaMinutes?: number;
  /** What the expected output is based on: `pilot n=50`, `learnt n=340`, `ceiling`. */
  readonly basis: string;
  readonly card?: RateCard;
  /** The lowest factor at which the work is sold, where its plan costs this share of its list price; absent: none. */
  readonly floorOf?: (model: string, slaMinutes: number, costShare: number) => number;
  readonly assumptions: QuoteAssumptions;
}

/** The assumed speed of providers without a measured one. */
export interface QuoteAssumptions {
  readonly first_token_ms: number;
  readonly output_tokens_per_second: number;
}

export interface QuoteModel {
  readonly model: string;
  readonly items: number;
  readonly input_tokens: number;
  readonly input_tokens_estimated: boolean;
  /** Items with audio, files or images that no formula counts: `input_tokens` is without these. Absent without any. */
  readonly items_uncounted?: number;
  readonly expected_output_tokens: number;
  readonly expected_output_tokens_low: number;
  readonly expected_output_tokens_high: number;
  readonly expected_output_basis: readonly OutputBasis[];
  /** Answers that it was learnt from; 0 for the default. */
  readonly learnt_answers: number;
  /** For answers that do not fit their schema; they are in the tokens, the bill and the time. Absent: no item is checked. */
  readonly further_requests?: QuoteFurtherRequests;
  /** Null when no price is known; the model runs all the same. */
  readonly price: QuotePrice | null;
  /** What the provider is expected to bill: in realtime, or for what is left of a run with an sla, at that. */
  readonly billed_usd: number | null;
  /** The bill is between these two in 90 of 100 quotes, if the expected output was learnt. */
  readonly billed_usd_low: number | null;
  readonly billed_usd_high: number | null;
  readonly list_usd: number | null;
  readonly slas: readonly QuoteSla[];
  readonly time: QuoteTime;
}

/** A line that would fail before it is sent. */
export interface QuoteFault {
  /** From 1. */
  readonly line: number;
  readonly code: FailureCode;
  readonly message: string;
}

export interface Quote {
  readonly object: "quote";
  readonly currency: "usd";
  /** ISO time of the prices. */
  readonly priced_at: string;
  readonly items: number;
  /** Lines that would fail before anything is sent; not among the items. */
  readonly rejected_lines: number;
  /** The first of them; absent without any. */
  readonly first_fault?: QuoteFault;
  readonly input_tokens: number;
  readonly input_tokens_estimated: boolean;
  readonly expected_output_tokens: number;
  /** What the expected output is based on: `pilot n=50`, `learnt n=340`, or `ceiling` where some was never answered. */
  readonly basis: string;
  /** What providers are expected to bill, of all models with a known price: in realtime, or for what is left of a run with an sla, at that. */
  readonly billed_usd: number;
  readonly billed_usd_low: number;
  readonly billed_usd_high: number;
  /** Of all models with a known price. */
  readonly list_usd: number;
  readonly slas: readonly QuoteSla[];
  readonly time: QuoteTime;
  /** Without a known price: the sums are without their items. */
  readonly unpriced_models: readonly string[];
  readonly unpriced_items: number;
  readonly assumptions: QuoteAssumptions;
  readonly models: readonly QuoteModel[];
}

/** Quotes the work; models in the order of their first row. */
export function quote(input: QuoteInput): Quote {
  const rows = rowsByModel(input.totals);
  const priced = [...rows].map(([model, totals]) => pricedOf(model, totals, input));
  const models = priced.map((each) => quoteModel(each, input));
  const unpriced = models.filter(({ price }) => price === null);
  const slowest = slowestOf(priced.map(({ time }) => time));
  const billed = bandOf(priced.flatMap((each) => ownBands(each, input)));
  return {
    object: "quote",
    currency: "usd",
    priced_at: new Date(input.wallMs).toISOString(),
    items: sum(models.map((model) => model.items)),
    rejected_lines: counted(input.rejectedLines),
    input_tokens: sum(models.map((model) => model.input_tokens)),
    input_tokens_estimated: models.some((model) => model.input_tokens_estimated),
    expected_output_tokens: sum(models.map((model) => model.expected_output_tokens)),
    basis: input.basis,
    ...shownBill(billed),
    list_usd: roundedUsd(sum(models.map((model) => model.list_usd ?? 0))),
    slas: input.slasMinutes.map((slaMinutes, index) => {
      const bands = priced.flatMap((each) => bandsAt(each, slaMinutes, input));
      return quoteAll(slaMinutes, index, models, bandOf(bands));
    }),
    time: shownTime(slowest),
    unpriced_models: unpriced.map(({ model }) => model),
    unpriced_items: sum(unpriced.map(({ items }) => items)),
    assumptions: input.assumptions,
    models,
  };
}

function shownBill(bill: Band): Record<BillName, number>;
function shownBill(bill: Band | undefined): Record<BillName, number | null>;
function shownBill(bill: Band | undefined): Record<BillName, number | null> {
  return {
    billed_usd: bill === undefined ? null : roundedUsd(bill.expected),
    billed_usd_low: bill === undefined ? null : roundedUsd(bill.low),
    billed_usd_high: bill === undefined ? null : roundedUsd(bill.high),
  };
}

type BillName = "billed_usd" | "billed_usd_low" | "billed_usd_high";

const IDLE: TimeNeeded = { seconds: 0, boundBy: "nothing", isMeasured: true };

/** A model, with the sums of its rows. */
interface Priced {
  readonly model: string;
  readonly totals: readonly ModelTotals[];
  readonly price: BasePrice | undefined;
  /** In USD; absent without a price. */
  readonly bands: readonly Band[];
  readonly time: TimeNeeded;
}

function pricedOf(model: string, totals: readonly ModelTotals[], input: QuoteInput): Priced {
  const id = parseModelId(model);
  const price = id === undefined ? undefined : input.price(id);
  const bands = price === undefined ? [] : totals.map((row) => usdOf(row, price));
  const alone = input.times.get(model) ?? IDLE;
  return { model, totals, price, bands, time: slowestOf([alone, behind(model, totals, input)]) };
}

/** What waits for the model already, and the work after it. */
function behind(
  model: string,
  totals: readonly ModelTotals[],
  { behindSeconds }: Pick<QuoteInput, "behindSeconds">,
): TimeNeeded {
  const items = sum(totals.map((row) => row.items));
  if (behindSeconds === undefined || items === 0) return IDLE;
  const seconds = behindSeconds(model, items, sum(totals.map((row) => row.inputTokens)));
  return { seconds, boundBy: "backlog", isMeasured: true };
}

/** Measured where all are. */
function slowestOf(times: readonly TimeNeeded[]): TimeNeeded {
  const slowest = times.reduce((a, b) => (b.seconds > a.seconds ? b : a), IDLE);
  return { ...slowest, isMeasured: times.every(({ isMeasured }) => isMeasured) };
}

function rowsByModel(totals: readonly ModelTotals[]): Map<string, ModelTotals[]> {
  const rows = new Map<string, ModelTotals[]>();
  for (const given of totals) {
    const row = {
      ...given,
      items: counted(given.items),
      inputTokens: counted(given.inputTokens),
      inputTokensLow: counted(given.inputTokensLow),
      inputTokensHigh: counted(given.inputTokensHigh),
      cachedTokens: counted(given.cachedTokens),
      cacheWriteTokens: counted(given.cacheWriteTokens),
      expectedOutputTokens: counted(given.expectedOutputTokens),
      outputTokensLow: counted(given.outputTokensLow),
      outputTokensHigh: counted(given.outputTokensHigh),
    };
    const known = rows.get(row.model);
    if (known === undefined) rows.set(row.model, [row]);
    else known.push(row);
  }
  return rows;
}

/** What is billed at an sla, each row in the lanes of its model. */
function bandsAt({ model, bands }: Priced, slaMinutes: number, { planned }: QuoteInput): readonly Band[] {
  const plan = planned?.(model, slaMinutes);
  return plan === undefined ? bands : bands.map((band) => partOf(band, plan));
}

/** At the work's own sla; in realtime without one. */
function ownBands(priced: Priced, input: QuoteInput): readonly Band[] {
  const { ownSlaMinutes } = input;
  return ownSlaMinutes === undefined ? priced.bands : bandsAt(priced, ownSlaMinutes, input);
}

function quoteModel(priced: Priced, input: QuoteInput): QuoteModel {
  const { model, totals, price, time } = priced;
  const total = (of: (row: ModelTotals) => number): number => sum(totals.map(of));
  const output = bandOf(totals.map(outputOf));
  const billed = price === undefined ? undefined : bandOf(ownBands(priced, input));
  const listUsd = price === undefined ? null : sum(totals.map((row) => usdOf(row, price, 1).expected));
  const uncounted = total((row) => row.itemsUncounted ?? 0);
  return {
    model,
    items: total((row) => row.items),
    input_tokens: Math.round(total((row) => row.inputTokens)),
    input_tokens_estimated: totals.some((row) => row.isEstimated),
    ...(uncounted > 0 ? { items_uncounted: uncounted } : {}),
    expected_output_tokens: Math.round(output.expected),
    expected_output_tokens_low: Math.floor(output.low),
    expected_output_tokens_high: Math.ceil(output.high),
    expected_output_basis: [...new Set(totals.map((row) => row.basis))],
    learnt_answers: total((row) => row.learntAnswers),
    ...shownFurther(totals),
    price: price === undefined ? null : quotePrice(price),
    ...shownBill(billed),
    list_usd: listUsd === null ? null : roundedUsd(listUsd),
    slas: input.slasMinutes.map((slaMinutes) => {
      const plan = input.planned?.(model, slaMinutes);
      const bill = price === undefined ? undefined : bandOf(bandsAt(priced, slaMinutes, input));
      const costShare = bill !== undefined && listUsd ? bill.expected / listUsd : 0;
      const factor = Math.max(
        priceFactor(model, slaMinutes, input.volumeTokens, input.card ?? RATE_CARD),
        input.floorOf?.(model, slaMinutes, costShare) ?? 0,
      );
      return {
        sla_minutes: slaMinutes,
        price_factor: factor,
        usd: listUsd === null ? null : roundedUsd(listUsd * factor),
        ...shownBill(bill),
        lanes: plan?.lanes ?? [],
        finish: finishAt(time.seconds, plan),
        is_feasible:
          Math.min(time.seconds, input.batchedSeconds?.(model, slaMinutes) ?? Infinity) <= slaMinutes * 60,
      };
    }),
    time: shownTime(time),
  };
}

function quoteAll(slaMinutes: number, index: number, models: readonly QuoteModel[], billed: Band): QuoteSla {
  const own = models.flatMap((model) => model.slas[index] ?? []);
  const listUsd = sum(models.map((model) => model.list_usd ?? 0));
  const usd = sum(models.map((model) => model.slas[index]?.usd ?? 0));
  return {
    sla_minutes: slaMinutes,
    price_factor: Math.round((listUsd > 0 ? usd / listUsd : meanFactor(models, index)) * 10_000) / 10_000,
    usd: roundedUsd(usd),
    ...shownBill(billed),
    lanes: lanesOf(own.map(({ lanes }) => lanes)),
    finish: lastFinish(own.map(({ finish }) => finish)),
    is_feasible: own.every(({ is_feasible }) => is_feasible),
  };
}

/** Of work without a price: by its items; 1 without any. */
function meanFactor(models: readonly QuoteModel[], index: number): number {
  const items = sum(models.map((model) => model.items));
  const weighted = sum(models.map((model) => model.items * (model.slas[index]?.price_factor ?? 1)));
  return items > 0 ? weighted / items : 1;
}

function outputOf(row: ModelTotals): Band {
  const { expectedOutputTokens, outputTokensLow, outputTokensHigh } = row;
  return {
    expected: expectedOutputTokens,
    low: outputTokensLow,
    high: outputTokensHigh,
    isLearnt: row.basis !== "default",
  };
}

function usdOf(row: ModelTotals, price: BasePrice, tierFactor: number = row.tierFactor ?? 1): Band {
  const requests = row.items + (row.further?.expected ?? 0);
  const rates = ratesFor(price, requests > 0 ? row.inputTokens / requests : 0);
  const { inputTokens, cachedTokens, cacheWriteTokens } = row;
  const fresh = Math.max(0, inputTokens - cachedTokens - cacheWriteTokens);
  const inputUsd =
    (fresh * rates.inputUsdPerMillion +
      cachedTokens * rates.cachedUsdPerMillion +
      cacheWriteTokens * rates.cacheWriteUsdPerMillion) /
    1e6;
  const output = outputOf(row);
  const at = (input: number, outputTokens: number): number =>
    tierFactor *
    (inputUsd * (inputTokens > 0 ? input / inputTokens : 1) +
      (outputTokens * rates.outputUsdPerMillion) / 1e6);
  return {
    expected: at(inputTokens, output.expected),
    low: at(row.inputTokensLow, output.low),
    high: at(row.inputTokensHigh, output.high),
    isLearnt: output.isLearnt,
  };
}

/** Nano-USD at most: 0.1 + 0.2 is shown as 0.3. */
function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
