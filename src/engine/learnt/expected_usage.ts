/**
 * What items that are not answered yet are expected to take, gathered by model: from what was learnt of answers
 * (queue/answer_means.ts), and from a default where nothing was.
 *
 *   learnt     the mean of answers to the same system prompt, or else of the model; 90 of 100 are within the band:
 *              mean x e^(-t x error / mean) to mean x e^((t + skew) x error / mean), t = Student's t at 95 % for the answers known, the
 *              error of input and output no less than 1 %; skew (price/band.ts): long answers that were not seen yet. The lower end is
 *              not nearer for it, because not all lengths are skewed
 *   default    512 output tokens, but no more than half of the item's limit; from an eighth of that up to the limit (4,096
 *              without one)
 *
 * An item whose answer is checked takes further requests (answer_fits.ts), each with the answer before it and what does not fit: as
 * many as are learnt or assumed, and at the upper end of the band two more where nothing was learnt of the answers.
 *
 * Limits: a row for each system prompt with answers that is known (64 a model), one for all others of the model, and one for
 * those without evidence; 1,000 different other prompts are distinguished.
 */
import { skewT95, studentT95 } from "../../price/band.ts";
import type { ModelTotals, OutputBasis } from "../../price/quote.ts";
import type { FurtherRequests } from "../../price/quote_requests.ts";
import { batchEndpointOf } from "../../providers/batches/batch_endpoints.ts";
import type { BatchEndpoint } from "../../providers/batches/batch_wire.ts";
import {
  type AlikeItems,
  type AnswerEstimate,
  type AnswerMeans,
  expectedOutput,
  inputVariance,
  outputVariance,
} from "../../queue/answer_means.ts";
import type { LatencyGroup } from "../../queue/last_answer.ts";
import { requestsOf } from "../../shard/joined_body.ts";
import { hasMetadata, type MeasuredBlock, type MeasuredGroup, schemaJsonOf } from "../../shard/measured.ts";
import { hasNoOutput } from "../../work/request.ts";
import type { AnswerFits } from "./answer_fits.ts";

const DEFAULT_TOKENS = 512;
const DEFAULT_LOW = 1 / 8;
const DEFAULT_HIGH_TOKENS = 4_096;
/** How far counts may be off if the tokenizer is not public and no answer has shown the real count. */
const ESTIMATED_ERROR = 0.2;
/** What some dozen answers cannot show of thousands. */
const ERROR_MIN = 0.01;
/** Beyond this the mean says nothing: a band of a tenth to ten times. */
const BAND_MAX = Math.log(10);
/** An image may be that much smaller than expected. */
const LEARNT_SHARE_MIN = 0.1;
const PROMPTS_MAX = 1_000;
/** Tokens of what is said of an answer that does not fit, besides that answer. */
export const REPLY_TOKENS = 60;

/** The assumed speed of a provider without a measured one. */
export const ASSUMED_SPEED = { first_token_ms: 1_000, output_tokens_per_second: 50 } as const;

/** The items of one model. */
export interface ModelWork {
  readonly model: string;
  readonly items: number;
  /** In realtime, where items may share requests, further ones for answers that do not fit aside. */
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Of all answers, one after the other. */
  readonly busyMs: number;
  readonly latencies: readonly LatencyGroup[];
  /** Whether that was measured. */
  readonly isMeasured: boolean;
  /** What they ask for: all of them go where each may go. */
  readonly endpoints: readonly BatchEndpoint[];
}

interface Row {
  readonly model: string;
  readonly estimate: AnswerEstimate | undefined;
  readonly isEstimated: boolean;
  readonly prompts: Set<number>;
  items: number;
  requests: number;
  countedTokens: number;
  /** Sums of `BeyondTexts`. */
  beyondTokens: number;
  beyondTokensMost: number;
  tierExcess: number;
  itemsUncounted: number;
  outputTokens: number;
  /** The mean of the limits; 4,096 without one. */
  limitTokens: number;
  /** Requests for answers that do not fit: as expected, at the ends of their band, and at most. */
  readonly further: { items: number; expected: number; low: number; high: number; most: number };
  /** Input tokens of further turns, as expected and at most. */
  turnTokens: number;
  turnTokensMost: number;
}

/** Which items are checked, and how often those are asked. */
export interface CheckedItems {
  /** Those that say nothing themselves. */
  readonly isChecked: boolean;
  readonly answersMax: number;
}

/** Whether each item of a block is checked. Chats only. */
export function checkedIn(measured: MeasuredBlock, isChecked: boolean): (item: number) => boolean {
  const sayThemselves = hasMetadata(measured.keys);
  return (item) => {
    if (measured.groups[measured.groupOf[item] as number]?.endpoint !== undefined) return false;
    const schema = sayThemselves ? schemaJsonOf(measured, item) : "";
    return schema === "" ? isChecked : schema !== "null";
  };
}

/** Add blocks to it; then read the totals. */
export class ExpectedUsage {
  readonly #means: AnswerMeans;
  readonly #fits: AnswerFits;
  readonly #checked: CheckedItems;
  /** By model, and within it by system prompt where answers to it are known. */
  readonly #rows = new Map<string, Row>();
  readonly #estimates = new Map<string, AnswerEstimate | undefined>();
  /** What the items of each model ask for. */
  readonly #endpoints = new Map<string, Set<BatchEndpoint>>();

  constructor(
    { answers, fits }: { readonly answers: AnswerMeans; readonly fits: AnswerFits },
    checked: CheckedItems,
  ) {
    this.#means = answers;
    this.#fits = fits;
    this.#checked = checked;
  }

  /** Adds the items of a block. */
  addBlock(measured: MeasuredBlock): void {
    const isChecked = checkedIn(measured, this.#checked.isChecked);
    const requests = measured.groups.map(() => ({ items: 0, inputTokens: 0, expected: 0, most: 0 }));
    for (let item = 0; item < measured.count; item += 1) {
      const sums = requests[measured.groupOf[item] as number];
      const isOneOfThem = isChecked(item);
      const further = this.#add(measured, item, isOneOfThem);
      if (sums === undefined) continue;
      sums.items += 1;
      sums.inputTokens += measured.inputTokens[item] as number;
      sums.expected += 1 + further;
      sums.most += isOneOfThem ? this.#checked.answersMax : 1;
    }
    for (const [index, group] of measured.groups.entries()) {
      this.#asked(group, requests[index]);
      if (group.beyond === undefined) continue;
      const row = this.#rowOf(group);
      const { items, expected, most } = requests[index] ?? { items: 0, expected: 1, most: 1 };
      row.beyondTokens += group.beyond.tokens * (items > 0 ? expected / items : 1);
      row.beyondTokensMost += group.beyond.tokensMost * (items > 0 ? most / items : 1);
      row.tierExcess += group.beyond.tierExcess;
      row.itemsUncounted += group.beyond.itemsUncounted;
    }
  }

  #asked(group: MeasuredGroup, { items, inputTokens } = { items: 0, inputTokens: 0 }): void {
    if (items === 0) return;
    const { model, endpoint, joins } = group;
    const known = this.#endpoints.get(model) ?? new Set();
    this.#endpoints.set(model, known.add(batchEndpointOf(endpoint)));
    this.#rowOf(group).requests += requestsOf(joins, items, inputTokens);
  }

  /** Returns the further requests that are expected of it. */
  #add(measured: MeasuredBlock, item: number, isChecked: boolean): number {
    const group = measured.groups[measured.groupOf[item] as number];
    if (group === undefined) return 0;
    const row = this.#rowOf(group);
    const { endpoint } = group;
    const counted = measured.inputTokens[item] as number;
    const limit = measured.maxOutputTokens[item] as number;
    const { most, output } = !hasNoOutput(endpoint) ? outputOf(row, counted, limit) : { most: 0, output: 0 };
    const further = isChecked ? this.#further(row, { counted, output, most }) : 0;
    row.items += 1;
    row.countedTokens += counted * (1 + further);
    row.limitTokens += most * (isChecked ? this.#checked.answersMax : 1);
    row.outputTokens += output * (1 + further);
    if (row.prompts.size < PROMPTS_MAX) row.prompts.add(group.prefixHash);
    return further;
  }

  #further(
    row: Row,
    { counted, output, most }: { readonly counted: number; readonly output: number; readonly most: number },
  ): number {
    const furtherMax = this.#checked.answersMax - 1;
    const estimate = this.#fits.of(row.model);
    const expected = Math.min(furtherMax, estimate.expected);
    row.further.items += estimate.items > 0 ? 1 : 0;
    row.further.expected += expected;
    row.further.low += Math.min(furtherMax, estimate.low);
    row.further.high += Math.min(furtherMax, estimate.high);
    row.further.most += furtherMax;
    row.turnTokens += expected * (output + REPLY_TOKENS);
    row.turnTokensMost +=
      furtherMax * (counted + most + REPLY_TOKENS) - expected * (counted + output + REPLY_TOKENS);
    return expected;
  }

  /** Rows of models in the order of their first items. */
  totals(): ModelTotals[] {
    return [...this.#rows.values()].map(totalsOf);
  }

  /** One for each model. */
  works(): ModelWork[] {
    const works = new Map<string, { -readonly [name in keyof ModelWork]: ModelWork[name] }>();
    for (const row of this.#rows.values()) {
      const { model, items, estimate, outputTokens } = row;
      const work = works.get(model) ?? {
        model,
        items: 0,
        requests: 0,
        inputTokens: 0,
        outputTokens: 0,
        busyMs: 0,
        latencies: [],
        isMeasured: true,
        endpoints: [...(this.#endpoints.get(model) ?? [])],
      };
      work.items += items;
      work.requests += row.requests;
      work.inputTokens += inputOf(row);
      work.outputTokens += outputTokens;
      const busyMs = busyMsOf(row);
      work.busyMs += busyMs;
      work.latencies = [...work.latencies, latenciesOf(row, busyMs)];
      work.isMeasured &&= estimate !== undefined;
      works.set(model, work);
    }
    return [...works.values()];
  }

  #rowOf({ model, prefixHash, isEstimated }: MeasuredGroup): Row {
    const asked = `${prefixHash} ${model}`;
    const estimate = this.#estimates.has(asked)
      ? this.#estimates.get(asked)
      : this.#means.of(model, prefixHash);
    if (this.#estimates.size < PROMPTS_MAX) this.#estimates.set(asked, estimate);
    const key = estimate?.basis === "prompt" ? asked : `${estimate === undefined ? "" : "*"} ${model}`;
    const known = this.#rows.get(key);
    if (known !== undefined) return known;
    const sums = { items: 0, requests: 0, countedTokens: 0, outputTokens: 0, limitTokens: 0 };
    const beyond = { beyondTokens: 0, beyondTokensMost: 0, tierExcess: 0, itemsUncounted: 0 };
    const further = { items: 0, expected: 0, low: 0, high: 0, most: 0 };
    const turns = { turnTokens: 0, turnTokensMost: 0 };
    const prompts = new Set<number>();
    const row: Row = { model, estimate, isEstimated, prompts, further, ...sums, ...beyond, ...turns };
    this.#rows.set(key, row);
    return row;
  }
}

function totalsOf(row: Row): ModelTotals {
  const { model, items, estimate, isEstimated, outputTokens } = row;
  const inputTokens = inputOf(row);
  const beyondTokens = beyondOf(row);
  const textTokens = inputTokens - beyondTokens;
  const inputFactor =
    estimate === undefined
      ? 1 + (isEstimated ? ESTIMATED_ERROR : 0)
      : factorOf(inputVariance(estimate, alikeOf(row, estimate)), textTokens, estimate);
  return {
    model,
    items,
    inputTokens,
    cachedTokens: inputTokens * (estimate?.cachedShare ?? 0),
    cacheWriteTokens: inputTokens * (estimate?.writtenShare ?? 0),
    inputTokensLow: (textTokens / inputFactor) * shareOf(row, row.further.low),
    inputTokensHigh:
      (estimate === undefined
        ? textTokens * inputFactor + row.turnTokensMost
        : textTokens * inputFactor * shareOf(row, row.further.high)) +
      (beyondTokens > 0 ? row.beyondTokensMost : 0),
    tierFactor: items > 0 ? 1 + row.tierExcess / items : 1,
    itemsUncounted: row.itemsUncounted,
    isEstimated,
    expectedOutputTokens: outputTokens,
    ...bandOf(row),
    basis: basisOf(estimate),
    learntAnswers: estimate === undefined ? 0 : Math.round(estimate.answers),
    ...furtherOf(row),
  };
}

/** Requests, if so many of them are further ones, over those that are expected. */
function shareOf({ items, further }: Row, furtherRequests: number): number {
  return items > 0 ? (items + furtherRequests) / (items + further.expected) : 1;
}

function furtherOf({ further: { items, expected, most } }: Row): { readonly further?: FurtherRequests } {
  return most === 0 ? {} : { further: { expected, most, isLearnt: items > 0 } };
}

function inputOf(row: Row): number {
  return row.countedTokens * (row.estimate?.inputRatio ?? 1) + row.turnTokens + beyondOf(row);
}

/**
 * Tools, schemas and images, if no answer has shown what they take. The learnt ratio holds them if the answers were to
 * requests that had them: then it is well above 1.
 */
function beyondOf({ countedTokens, beyondTokens, estimate }: Row): number {
  const learntTokens = countedTokens * ((estimate?.inputRatio ?? 1) - 1);
  return learntTokens > beyondTokens * LEARNT_SHARE_MIN ? 0 : beyondTokens;
}

function bandOf(row: Row): Pick<ModelTotals, "outputTokensLow" | "outputTokensHigh"> {
  const { estimate, outputTokens, limitTokens } = row;
  if (estimate === undefined)
    return {
      outputTokensLow: outputTokens * DEFAULT_LOW * shareOf(row, row.further.low),
      outputTokensHigh: limitTokens,
    };
  const variance = outputVariance(estimate, alikeOf(row, estimate));
  const { variance: ofOne, meanOutput, independent } = estimate;
  const skew = meanOutput > 0 ? skewT95(Math.sqrt(ofOne) / meanOutput, independent) : 0;
  return {
    outputTokensLow:
      (outputTokens / factorOf(variance, outputTokens, estimate)) * shareOf(row, row.further.low),
    outputTokensHigh:
      outputTokens * factorOf(variance, outputTokens, estimate, skew) * shareOf(row, row.further.high),
  };
}

function alikeOf({ items, countedTokens, prompts }: Row, { basis }: AnswerEstimate): AlikeItems {
  return { items, countedTokens, independent: basis === "prompt" ? items : prompts.size };
}

/** How far the ends of the band are from what is expected; `skew`: by so many errors more. */
function factorOf(variance: number, expected: number, { independent }: AnswerEstimate, skew = 0): number {
  if (expected <= 0) return 1;
  const error = Math.max(ERROR_MIN, Math.sqrt(variance) / expected);
  return Math.exp(Math.min(BAND_MAX, (studentT95(independent - 1) + skew) * error));
}

function basisOf(estimate: AnswerEstimate | undefined): OutputBasis {
  if (estimate === undefined) return "default";
  return estimate.basis === "prompt" ? "learnt of the system prompt" : "learnt of the model";
}

/** Longer answers take longer. */
function busyMsOf({ estimate, requests, further, outputTokens }: Row): number {
  const items = requests + further.expected;
  const { first_token_ms: firstMs, output_tokens_per_second: perSecond } = ASSUMED_SPEED;
  if (estimate === undefined) return items * firstMs + (outputTokens / perSecond) * 1_000;
  const { meanMs, meanOutput, slope } = estimate;
  return items * meanMs * (slope > 0 ? outputTokens / (items * meanOutput) : 1);
}

/** Around a mean that is longer or shorter than that of the answers seen, as they are around theirs. */
function latenciesOf({ estimate, requests: items }: Row, busyMs: number): LatencyGroup {
  const ms = Math.max(1, busyMs / items);
  if (estimate === undefined) return { items, meanLn: Math.log(ms), varianceLn: 0 };
  const { meanLn, varianceLn, meanMs } = estimate;
  return { items, meanLn: meanLn + Math.log(ms / Math.max(1, meanMs)), varianceLn };
}

/** Output tokens of one item: the most, and those expected. `limit`: 0 where the item has none. */
function outputOf(
  { estimate }: Row,
  counted: number,
  limit: number,
): { readonly most: number; readonly output: number } {
  const most = limit > 0 ? limit : DEFAULT_HIGH_TOKENS;
  if (estimate !== undefined) return { most, output: expectedOutput(estimate, counted, limit) };
  return { most, output: Math.min(DEFAULT_TOKENS, limit > 0 ? limit / 2 : DEFAULT_TOKENS) };
}
