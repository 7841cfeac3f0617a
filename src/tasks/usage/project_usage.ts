/**
 * The usage of projects: items, tokens and money. Money is summed in whole nano-USD (price/nano.ts).
 */
import type { Taken } from "../../price/budget.ts";
import { type Money, NO_MONEY } from "../../price/money.ts";
import { minusUsd, plusUsd } from "../../price/nano.ts";

/** Tokens and money of settled items. */
export interface ProjectUsage extends Money {
  readonly items: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
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
  };
}

/** The usage since an earlier sum. */
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
