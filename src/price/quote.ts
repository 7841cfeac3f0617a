/**
 * What a piece of work will cost and how long it will take, before anything is sent. Pure: totals, prices and limits
 * in, a plain object out, which `perigee quote --json` prints and `engine.quote` returns as it is.
 *
 *   list   = input tokens x input rate + expected output tokens x output rate       (tier of the mean request)
 *   at sla = list x price factor(model, sla, volume of the task)
 *   time   = max(requests / requests per minute, tokens / tokens per minute, ..., items x latency / concurrency) + latency
 *   latency = time to the first token + expected output tokens / output speed       (assumed, stated in the quote)
 *   time   >= seconds behind what waits already, where the caller can tell them
 *
 * Models that share limits (a `group`) take their turns; groups run side by side. A model may be in several groups, as
 * that of its provider and that of its family: the slowest of them sets its time. No cache discount is assumed. Sums cover the models with a known price; `unpriced_models` names the others. No number is ever NaN.
 */
import type { FailureCode } from "../errors.ts";
import type { LimitSettings } from "../work/limits.ts";
import { parseModelId } from "../work/request.ts";
import { counted, roundedUsd } from "./cost.ts";
import { priceFactor, RATE_CARD, type RateCard } from "./factor.ts";
import { type GroupLoad, type LimitBound, type TimeNeeded, timeNeeded } from "./quote_time.ts";
import { type BasePrice, ratesFor } from "./rates.ts";

/** Where an expected output comes from. */
export type OutputBasis = "max_output_tokens of the items" | "learnt p90" | "default 512";

/**
 * Totals of the items of one model. A model may come in several rows, for example those items above a tier's start
 * by themselves: each row is priced by its own mean request, and the rows are summed.
 */
export interface ModelTotals {
  /** `<provider>:<name>`. */
  readonly model: string;
  readonly items: number;
  readonly inputTokens: number;
  /** True when the tokenizer of the model is not public. */
  readonly isEstimated: boolean;
  readonly expectedOutputTokens: number;
  readonly basis: OutputBasis;
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
  /** All limits that hold for a model, each with the name of the group that shares it. */
  readonly limits: (model: string) => readonly GroupLimits[];
  /** Seconds until items of a model would be done behind what waits already; absent: nothing waits. */
  readonly behindSeconds?: (model: string, items: number, inputTokens: number) => number;
  readonly card?: RateCard;
  readonly assumptions?: Partial<QuoteAssumptions>;
}

/** Limits of one group of models. */
export interface GroupLimits {
  readonly group: string;
  readonly limits: LimitSettings;
}

/** What is assumed of the providers' speed. */
export interface QuoteAssumptions {
  readonly first_token_ms: number;
  readonly output_tokens_per_second: number;
}

const QUOTE_ASSUMPTIONS: QuoteAssumptions = { first_token_ms: 1_000, output_tokens_per_second: 50 };

export interface QuotePrice {
  readonly source: string;
  /** The day from which the source is, `YYYY-MM-DD`. */
  readonly as_of: string;
  readonly matched_model: string;
  readonly is_exact: boolean;
  readonly input_usd_per_million: number;
  readonly cached_usd_per_million: number;
  readonly cache_write_usd_per_million: number;
  readonly output_usd_per_million: number;
  /** When another price begins, ISO time; null when no change is known. */
  readonly valid_until: string | null;
}

/** One window asked for. */
export interface QuoteSla {
  readonly sla_minutes: number;
  /** Of one model: its price factor. Of all: USD at the sla over USD at list price; 1 when that is nothing. */
  readonly price_factor: number;
  /** What a service charges at this sla: list price times price factor; null when no price is known. */
  readonly usd: number | null;
  /** Whether the time needed fits into the window. */
  readonly is_feasible: boolean;
}

export interface QuoteModel {
  readonly model: string;
  readonly items: number;
  readonly input_tokens: number;
  readonly input_tokens_estimated: boolean;
  readonly expected_output_tokens: number;
  readonly expected_output_basis: readonly OutputBasis[];
  /** Null when no price is known; the model runs all the same. */
  readonly price: QuotePrice | null;
  /** What the provider is expected to bill: everything is sent in real time, at its list price. */
  readonly billed_usd: number | null;
  readonly list_usd: number | null;
  readonly slas: readonly QuoteSla[];
  readonly time: QuoteTime;
}

export interface QuoteTime {
  readonly seconds: number;
  /** What sets the time. */
  readonly bound_by: LimitBound;
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
  /** The first of them; absent when there is none. */
  readonly first_fault?: QuoteFault;
  readonly input_tokens: number;
  readonly input_tokens_estimated: boolean;
  readonly expected_output_tokens: number;
  /** What providers are expected to bill, of all models with a known price. */
  readonly billed_usd: number;
  /** Of all models with a known price. */
  readonly list_usd: number;
  readonly slas: readonly QuoteSla[];
  readonly time: QuoteTime;
  readonly unpriced_models: readonly string[];
  readonly assumptions: QuoteAssumptions;
  readonly models: readonly QuoteModel[];
}

/** Quotes the work; models in the order of their first row. */
export function quote(input: QuoteInput): Quote {
  const assumptions = { ...QUOTE_ASSUMPTIONS, ...input.assumptions };
  const rows = rowsByModel(input.totals);
  const times = timesByGroup(rows, input, assumptions);
  let slowest = slowestOf([...times.values()]);
  const models = [...rows].map(([model, totals]) => {
    const limited = input.limits(model).map(({ group }) => times.get(group) ?? IDLE);
    const time = slowestOf([...limited, behind(model, totals, input)]);
    slowest = slowestOf([slowest, time]);
    return quoteModel(model, totals, time, input);
  });
  return {
    object: "quote",
    currency: "usd",
    priced_at: new Date(input.wallMs).toISOString(),
    items: sum(models.map((model) => model.items)),
    rejected_lines: counted(input.rejectedLines),
    input_tokens: sum(models.map((model) => model.input_tokens)),
    input_tokens_estimated: models.some((model) => model.input_tokens_estimated),
    expected_output_tokens: sum(models.map((model) => model.expected_output_tokens)),
    billed_usd: roundedUsd(sum(models.map((model) => model.billed_usd ?? 0))),
    list_usd: roundedUsd(sum(models.map((model) => model.list_usd ?? 0))),
    slas: input.slasMinutes.map((slaMinutes, index) => quoteAll(slaMinutes, index, models, slowest)),
    time: shown(slowest),
    unpriced_models: models.filter((model) => model.price === null).map((model) => model.model),
    assumptions,
    models,
  };
}

/** For work that is never done as things stand: JSON has no larger one. */
const SECONDS_MAX = 1e9;

const IDLE: TimeNeeded = { seconds: 0, boundBy: "nothing" };

/** What waits for the model already, and the work behind it. */
function behind(
  model: string,
  totals: readonly ModelTotals[],
  { behindSeconds }: Pick<QuoteInput, "behindSeconds">,
): TimeNeeded {
  const items = sum(totals.map((row) => row.items));
  if (behindSeconds === undefined || items === 0) return IDLE;
  const seconds = behindSeconds(model, items, sum(totals.map((row) => row.inputTokens)));
  return { seconds: Math.min(seconds, SECONDS_MAX), boundBy: "backlog" };
}

function slowestOf(times: readonly TimeNeeded[]): TimeNeeded {
  return times.reduce((a, b) => (b.seconds > a.seconds ? b : a), IDLE);
}

function rowsByModel(totals: readonly ModelTotals[]): Map<string, ModelTotals[]> {
  const rows = new Map<string, ModelTotals[]>();
  for (const given of totals) {
    const row = {
      ...given,
      items: counted(given.items),
      inputTokens: counted(given.inputTokens),
      expectedOutputTokens: counted(given.expectedOutputTokens),
    };
    const known = rows.get(row.model);
    if (known === undefined) rows.set(row.model, [row]);
    else known.push(row);
  }
  return rows;
}

function timesByGroup(
  rows: ReadonlyMap<string, readonly ModelTotals[]>,
  input: QuoteInput,
  assumptions: QuoteAssumptions,
): Map<string, TimeNeeded> {
  const groups = new Map<string, { readonly limits: LimitSettings; readonly totals: ModelTotals[] }>();
  for (const [model, totals] of rows) {
    for (const { group, limits } of input.limits(model)) {
      const known = groups.get(group);
      if (known === undefined) groups.set(group, { limits, totals: [...totals] });
      else known.totals.push(...totals);
    }
  }
  return new Map(
    [...groups].map(([group, { limits, totals }]) => [
      group,
      timeNeeded(loadOf(totals, assumptions), limits),
    ]),
  );
}

function loadOf(totals: readonly ModelTotals[], assumptions: QuoteAssumptions): GroupLoad {
  const latencies = totals
    .filter((row) => row.items > 0)
    .map((row) => ({
      items: row.items,
      seconds:
        assumptions.first_token_ms / 1_000 +
        row.expectedOutputTokens / row.items / assumptions.output_tokens_per_second,
    }));
  return {
    items: sum(totals.map((row) => row.items)),
    inputTokens: sum(totals.map((row) => row.inputTokens)),
    outputTokens: sum(totals.map((row) => row.expectedOutputTokens)),
    busySeconds: sum(latencies.map((latency) => latency.items * latency.seconds)),
    latencySeconds: latencies.reduce((longest, latency) => Math.max(longest, latency.seconds), 0),
  };
}

function quoteModel(
  model: string,
  totals: readonly ModelTotals[],
  time: TimeNeeded,
  input: QuoteInput,
): QuoteModel {
  const id = parseModelId(model);
  const price = id === undefined ? undefined : input.price(id);
  const inputTokens = sum(totals.map((row) => row.inputTokens));
  const outputTokens = sum(totals.map((row) => row.expectedOutputTokens));
  const listUsd = price === undefined ? null : sum(totals.map((row) => listUsdOf(row, price)));
  return {
    model,
    items: sum(totals.map((row) => row.items)),
    input_tokens: inputTokens,
    input_tokens_estimated: totals.some((row) => row.isEstimated),
    expected_output_tokens: outputTokens,
    expected_output_basis: [...new Set(totals.map((row) => row.basis))],
    price: price === undefined ? null : quotePrice(price),
    billed_usd: listUsd === null ? null : roundedUsd(listUsd),
    list_usd: listUsd === null ? null : roundedUsd(listUsd),
    slas: input.slasMinutes.map((slaMinutes) => {
      const factor = priceFactor(model, slaMinutes, input.volumeTokens, input.card ?? RATE_CARD);
      return {
        sla_minutes: slaMinutes,
        price_factor: factor,
        usd: listUsd === null ? null : roundedUsd(listUsd * factor),
        is_feasible: time.seconds <= slaMinutes * 60,
      };
    }),
    time: shown(time),
  };
}

function quoteAll(
  slaMinutes: number,
  index: number,
  models: readonly QuoteModel[],
  slowest: TimeNeeded,
): QuoteSla {
  const listUsd = sum(models.map((model) => model.list_usd ?? 0));
  const usd = sum(models.map((model) => model.slas[index]?.usd ?? 0));
  return {
    sla_minutes: slaMinutes,
    price_factor: Math.round((listUsd > 0 ? usd / listUsd : meanFactor(models, index)) * 10_000) / 10_000,
    usd: roundedUsd(usd),
    is_feasible: slowest.seconds <= slaMinutes * 60,
  };
}

/** Of work without a price: by its items; 1 when there are none. */
function meanFactor(models: readonly QuoteModel[], index: number): number {
  const items = sum(models.map((model) => model.items));
  const weighted = sum(models.map((model) => model.items * (model.slas[index]?.price_factor ?? 1)));
  return items > 0 ? weighted / items : 1;
}

function listUsdOf(row: ModelTotals, price: BasePrice): number {
  const rates = ratesFor(price, row.items > 0 ? row.inputTokens / row.items : 0);
  return (
    (row.inputTokens * rates.inputUsdPerMillion + row.expectedOutputTokens * rates.outputUsdPerMillion) / 1e6
  );
}

function quotePrice(price: BasePrice): QuotePrice {
  return {
    source: price.source,
    as_of: price.asOf,
    matched_model: price.matchedModel,
    is_exact: price.isExact,
    input_usd_per_million: price.inputUsdPerMillion,
    cached_usd_per_million: price.cachedUsdPerMillion,
    cache_write_usd_per_million: price.cacheWriteUsdPerMillion,
    output_usd_per_million: price.outputUsdPerMillion,
    valid_until: Number.isFinite(price.validUntilWallMs)
      ? new Date(price.validUntilWallMs).toISOString()
      : null,
  };
}

/** Tenths of a second, rounded up. */
function shown(time: TimeNeeded): QuoteTime {
  return { seconds: Math.ceil(time.seconds * 10) / 10, bound_by: time.boundBy };
}

/** Nano-USD at most: 0.1 + 0.2 is shown as 0.3. */
function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
