/**
 * The usage of projects: items, tokens and money. Money is summed in whole nano-USD (price/nano.ts).
 */
import type { Taken } from "../../price/budget.ts";
import { type Money, NO_MONEY } from "../../price/money.ts";
import { minusUsd, plusUsd } from "../../price/nano.ts";
import { addSales, type ModelSales } from "../../price/sales.ts";

/** Tokens and money of settled items. */
export interface ProjectUsage extends Money {
  readonly items: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** What callers got back of `usd`; absent: nothing. */
  readonly refundUsd?: number | undefined;
  /** Parts of it by model, of work that has ended; absent: not known. */
  readonly models?: ModelSales | undefined;
}

/** The usage of a posted task. */
export interface TaskUsage {
  readonly project: string;
  /** Determines the day. */
  readonly wallMs: number;
  readonly usage: ProjectUsage;
}

/** No usage. */
export const NO_PROJECT_USAGE: ProjectUsage = { items: 0, inputTokens: 0, outputTokens: 0, ...NO_MONEY };

/** The sum of two usages. Hot: lists its fields, because V8 is slow to spread objects with fractions. */
export function addUsage(left: ProjectUsage, right: ProjectUsage): ProjectUsage {
  return {
    items: left.items + right.items,
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    listUsd: plusUsd(left.listUsd, right.listUsd),
    usd: plusUsd(left.usd, right.usd),
    billedUsd: plusUsd(left.billedUsd, right.billedUsd),
    ambiguousUsd: plusUsd(left.ambiguousUsd, right.ambiguousUsd),
    refundUsd: addRefunds(left.refundUsd, right.refundUsd),
    models: addModels(left.models, right.models),
  };
}

function addRefunds(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : plusUsd(left, right);
}

function addModels(left: ModelSales | undefined, right: ModelSales | undefined): ModelSales | undefined {
  return left === undefined || right === undefined ? (left ?? right) : addSales(left, right);
}

/** The usage since an earlier sum, without models and refunds: those are known when work has ended. */
export function usageSince(usage: ProjectUsage, before: ProjectUsage): ProjectUsage {
  return {
    items: usage.items - before.items,
    inputTokens: usage.inputTokens - before.inputTokens,
    outputTokens: usage.outputTokens - before.outputTokens,
    listUsd: minusUsd(usage.listUsd, before.listUsd),
    usd: minusUsd(usage.usd, before.usd),
    billedUsd: minusUsd(usage.billedUsd, before.billedUsd),
    ambiguousUsd: minusUsd(usage.ambiguousUsd, before.ambiguousUsd),
  };
}

/** What providers billed or may have billed: what caps count. */
export function takenUsd({ billedUsd, ambiguousUsd }: Taken): number {
  return billedUsd + ambiguousUsd;
}
