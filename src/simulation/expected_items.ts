/**
 * What items are expected to take, one by one: tokens and list price, as a quote expects them of all (engine/learnt/expected_usage.ts).
 *
 *   learnt    what answers to the same system prompt, or of the model, took
 *   given     the caller says how long outputs are
 *   default   512 output tokens, but no more than half of the item's limit
 *
 * An item that is checked takes further requests, as in a quote: each has its input again, the answer before it and what does not fit, and
 * costs what a request of that size does. It is simulated as one that takes all of their tokens.
 */

import type { AnswerFits } from "../engine/learnt/answer_fits.ts";
import { type CheckedItems, checkedIn, REPLY_TOKENS } from "../engine/learnt/expected_usage.ts";
import { costOf } from "../price/cost.ts";
import type { BasePrice } from "../price/rates.ts";
import { type AnswerEstimate, type AnswerMeans, expectedOutput } from "../queue/answer_means.ts";
import type { MeasuredBlock, MeasuredGroup } from "../shard/measured.ts";
import { NO_USAGE } from "../work/outcome.ts";
import { hasNoOutput } from "../work/request.ts";

const DEFAULT_TOKENS = 512;
/** System prompts that are looked up once; beyond, all are looked up again. */
const GROUPS_MAX = 1_000;

/** Of one item. */
export interface ExpectedItem {
  /** Whole, as providers count them. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly listUsd: number;
}

interface GroupFigures {
  readonly estimate: AnswerEstimate | undefined;
  readonly price: BasePrice | undefined;
}

export interface ExpectedItemsOptions {
  readonly answers: AnswerMeans;
  readonly fits: AnswerFits;
  readonly checked: CheckedItems;
  /** The price of a model, `<provider>:<name>`; undefined where it is not known. */
  readonly priceOf: (model: string) => BasePrice | undefined;
  /** Of each answer, in place of what was learnt. */
  readonly outputTokens?: number | undefined;
}

/** One for a file. */
export class ExpectedItems {
  readonly #options: ExpectedItemsOptions;
  readonly #groups = new Map<string, GroupFigures>();

  constructor(options: ExpectedItemsOptions) {
    this.#options = options;
  }

  /** `counted`: input tokens as perigee counts them; `outputTokensMax`: the item's own limit, 0 without one. */
  of(group: MeasuredGroup, counted: number, outputTokensMax: number, isChecked: boolean): ExpectedItem {
    const { estimate, price } = this.#figuresOf(group);
    const { fits, checked } = this.#options;
    const further = isChecked ? Math.min(checked.answersMax - 1, fits.of(group.model).expected) : 0;
    const output = hasNoOutput(group.endpoint) ? 0 : this.#outputOf(estimate, counted, outputTokensMax);
    const input = counted * (estimate?.inputRatio ?? 1);
    const again = input + output + REPLY_TOKENS;
    const inputTokens = Math.round(input + further * again);
    const outputTokens = Math.round(output * (1 + further));
    const usdOf = (tokens: number): number => {
      const rounded = Math.round(tokens);
      const cachedTokens = Math.round(rounded * (estimate?.cachedShare ?? 0));
      const cacheWriteTokens = Math.round(rounded * (estimate?.writtenShare ?? 0));
      const own = { inputTokens: rounded, outputTokens: Math.round(output), cachedTokens, cacheWriteTokens };
      return costOf({ ...NO_USAGE, ...own }, price, { factor: 1, laneFactor: 1 }).listUsd;
    };
    const listUsd = usdOf(input) + (further > 0 ? further * usdOf(again) : 0);
    return { inputTokens, outputTokens, listUsd };
  }

  /** Whether each item of a block is checked. */
  checkedIn(measured: MeasuredBlock): (item: number) => boolean {
    return checkedIn(measured, this.#options.checked.isChecked);
  }

  #outputOf(estimate: AnswerEstimate | undefined, counted: number, most: number): number {
    const { outputTokens } = this.#options;
    if (outputTokens !== undefined) return most > 0 ? Math.min(most, outputTokens) : outputTokens;
    if (estimate !== undefined) return expectedOutput(estimate, counted, most);
    return most > 0 ? Math.min(DEFAULT_TOKENS, most / 2) : DEFAULT_TOKENS;
  }

  #figuresOf({ model, prefixHash }: MeasuredGroup): GroupFigures {
    const name = `${prefixHash} ${model}`;
    const known = this.#groups.get(name);
    if (known !== undefined) return known;
    const { answers, priceOf } = this.#options;
    const figures = { estimate: answers.of(model, prefixHash), price: priceOf(model) };
    if (this.#groups.size >= GROUPS_MAX) this.#groups.clear();
    this.#groups.set(name, figures);
    return figures;
  }
}
