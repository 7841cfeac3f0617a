/**
 * The usage of projects: items, tokens and money.
 */
import type { Taken } from "../../price/budget.ts";
import { type Money, NO_MONEY } from "../../price/money.ts";

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
    listUsd: left.listUsd + right.listUsd,
    usd: left.usd + right.usd,
    billedUsd: left.billedUsd + right.billedUsd,
    ambiguousUsd: left.ambiguousUsd + right.ambiguousUsd,
  };
}

/** The usage since an earlier sum. */
export function usageSince(usage: ProjectUsage, before: ProjectUsage): ProjectUsage {
  return {
    items: usage.items - before.items,
    inputTokens: usage.inputTokens - before.inputTokens,
    outputTokens: usage.outputTokens - before.outputTokens,
    listUsd: usage.listUsd - before.listUsd,
    usd: usage.usd - before.usd,
    billedUsd: usage.billedUsd - before.billedUsd,
    ambiguousUsd: usage.ambiguousUsd - before.ambiguousUsd,
  };
}

/** What providers billed or may have billed: what caps count. */
export function takenUsd({ billedUsd, ambiguousUsd }: Taken): number {
  return billedUsd + ambiguousUsd;
}
