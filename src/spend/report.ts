/**
 * What `perigee audit LOG` says, as JSON: sums of a log, by model, and what the same work would have cost with slas.
 *
 * Amounts are in USD, rounded to the nano-dollar. All are list prices but `stated_usd`, which the log says, and `paid_usd`,
 * which is the least of both (`what_if.ts` has the formulas). Tallies are added in the order of their keys, so equal ledgers make
 * equal reports. Requests of models without a price are in the counts, and in no amount.
 */
import { roundedUsd } from "../price/cost.ts";
import { laneTierOf } from "../price/lane_factors.ts";
import type { CountedLines, WrongLine } from "./count_lines.ts";
import type { WithoutUsage } from "./logged_usage.ts";
import { addSums, emptySums, type TallySums, type UsageTally } from "./model_tallies.ts";
import { costOfTally, type TallyCost, type WhatIfTier, whatIf } from "./what_if.ts";

export interface AuditReport {
  readonly lines: number;
  readonly lines_not_understood: number;
  /** The first of them. */
  readonly not_understood: readonly WrongLine[];
  /** Of the log, as ISO 8601; null where it has no times. */
  readonly from: string | null;
  readonly to: string | null;
  /** Requests and sums without a time; they have the price of today. */
  readonly undated: number;
  /** Entries that are sums over many requests, and those of them that do not say how many. */
  readonly sum_entries: number;
  readonly sum_entries_without_requests: number;
  /** What was understood and has no usage of a provider. */
  readonly without_usage: Readonly<Record<WithoutUsage, number>>;
  readonly requests: number;
  readonly tokens: AuditTokens;
  readonly list_usd: number;
  readonly tier_usd: number;
  readonly paid_usd: number;
  /** Null where the log states no cost. */
  readonly stated_usd: number | null;
  readonly slas: readonly AuditSla[];
  readonly models: readonly AuditModel[];
  /** Costs that a log states without tokens, by provider. */
  readonly costs: readonly { readonly provider: string; readonly usd: number }[];
  readonly unpriced_requests: number;
  readonly unpriced_models: readonly string[];
}

export interface AuditTokens {
  /** Neither read from nor written to a cache. */
  readonly fresh_input: number;
  readonly cached_input: number;
  readonly cache_write: number;
  readonly output: number;
}

export interface AuditModel {
  /** `<provider>:<name>`; a part that the log does not say is `?`. */
  readonly model: string;
  readonly requests: number;
  readonly tokens: AuditTokens;
  /** Where its prices are from; null without a price. */
  readonly price: string | null;
  /** False where the price is that of a similar name. */
  readonly price_is_exact: boolean;
  /** Null without a price, as the others. */
  readonly list_usd: number | null;
  readonly tier_usd: number | null;
  readonly paid_usd: number | null;
  readonly stated_usd: number | null;
  readonly stated_requests: number;
  /** By the tiers that the log names. */
  readonly tiers: readonly AuditTier[];
  readonly slas: readonly AuditSla[];
}

export interface AuditTier {
  /** Null where the log names none: counted as realtime. */
  readonly tier: string | null;
  readonly is_known: boolean;
  readonly requests: number;
  readonly tier_usd: number | null;
}

export interface AuditSla {
  readonly sla_minutes: number;
  readonly expected_usd: number;
  /** Of what was paid; never below 0. */
  readonly saved_usd: number;
  /** Where the work would go, the most expensive first. */
  readonly tiers: readonly {
    readonly tier: WhatIfTier;
    readonly requests: number;
    readonly expected_usd: number;
  }[];
}

/** A tally with a price. */
interface Priced {
  readonly tally: UsageTally;
  readonly cost: TallyCost;
}

/** `slas` in minutes, ascending: the same as those that the ledger was counted with. */
export function auditReport(counted: CountedLines, slas: readonly number[]): AuditReport {
  const { ledger } = counted;
  const tallies = [...ledger.tallies].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, tally]) => tally);
  const models = modelsOf(tallies, slas);
  const unpriced = tallies.filter(({ rates }) => rates === undefined);
  return {
    lines: counted.lines - counted.blankLines,
    lines_not_understood: counted.wrongLines,
    not_understood: counted.firstWrong,
    from: Number.isFinite(ledger.fromMs) ? new Date(ledger.fromMs).toISOString() : null,
    to: Number.isFinite(ledger.toMs) ? new Date(ledger.toMs).toISOString() : null,
    undated: ledger.undated,
    sum_entries: ledger.sumEntries,
    sum_entries_without_requests: ledger.uncountedSums,
    without_usage: ledger.withoutUsage,
    requests: sumOf(tallies).requests,
    tokens: tokensOf(sumOf(tallies)),
    ...amountsOf(pricedOf(tallies)),
    stated_usd: statedUsd(tallies),
    slas: slas.map((minutes, index) => slaOf(pricedOf(tallies), minutes, index)),
    models,
    costs: [...ledger.costsNanoUsd].sort(byName).map(([provider, nano]) => ({ provider, usd: nano / 1e9 })),
    unpriced_requests: sumOf(unpriced).requests,
    unpriced_models: models.filter(({ price }) => price === null).map(({ model }) => model),
  };
}

/** The dearest first. */
function modelsOf(tallies: readonly UsageTally[], slas: readonly number[]): AuditModel[] {
  return [...groupedBy(tallies, nameOfModel)]
    .map(([model, own]) => modelOf(model, own, slas))
    .sort((a, b) => (b.list_usd ?? -1) - (a.list_usd ?? -1) || (a.model < b.model ? -1 : 1));
}

function modelOf(model: string, tallies: readonly UsageTally[], slas: readonly number[]): AuditModel {
  const priced = pricedOf(tallies);
  const stated = tallies.filter(({ isStated }) => isStated);
  const amounts =
    priced.length === 0 ? { list_usd: null, tier_usd: null, paid_usd: null } : amountsOf(priced);
  return {
    model,
    requests: sumOf(tallies).requests,
    tokens: tokensOf(sumOf(tallies)),
    price: priced[0]?.tally.priceSource ?? null,
    price_is_exact: priced.length > 0 && priced.every(({ tally }) => tally.isExactPrice),
    ...amounts,
    stated_usd: statedUsd(tallies),
    stated_requests: sumOf(stated).requests,
    tiers: [...groupedBy(tallies, ({ tier }) => tier)].map(([tier, own]) => tierOf(tier, own)),
    slas: priced.length === 0 ? [] : slas.map((minutes, index) => slaOf(priced, minutes, index)),
  };
}

function tierOf(tier: string | undefined, tallies: readonly UsageTally[]): AuditTier {
  const priced = pricedOf(tallies);
  return {
    tier: tier ?? null,
    is_known: laneTierOf(tier) !== undefined,
    requests: sumOf(tallies).requests,
    tier_usd: priced.length === 0 ? null : amountsOf(priced).tier_usd,
  };
}

function slaOf(priced: readonly Priced[], minutes: number, index: number): AuditSla {
  const tiers = new Map<WhatIfTier, { requests: number; usd: number }>();
  let [expected, paid] = [0, 0];
  for (const { tally, cost } of priced) {
    const { tier, expectedUsd } = whatIf(tally, cost, minutes, index);
    const sum = tiers.get(tier) ?? { requests: 0, usd: 0 };
    tiers.set(tier, { requests: sum.requests + tally.sums.requests, usd: sum.usd + expectedUsd });
    expected += expectedUsd;
    paid += cost.paidUsd;
  }
  return {
    sla_minutes: minutes,
    expected_usd: roundedUsd(expected),
    saved_usd: Math.max(0, roundedUsd(paid - expected)),
    tiers: [...tiers]
      .map(([tier, { requests, usd }]) => ({ tier, requests, expected_usd: roundedUsd(usd) }))
      .sort((a, b) => b.expected_usd - a.expected_usd || (a.tier < b.tier ? -1 : 1)),
  };
}

function pricedOf(tallies: readonly UsageTally[]): Priced[] {
  return tallies.flatMap((tally) => {
    const cost = costOfTally(tally);
    return cost === undefined ? [] : [{ tally, cost }];
  });
}

function amountsOf(priced: readonly Priced[]): Pick<AuditReport, "list_usd" | "tier_usd" | "paid_usd"> {
  const sum = (part: (cost: TallyCost) => number): number =>
    roundedUsd(priced.reduce((usd, { cost }) => usd + part(cost), 0));
  return {
    list_usd: sum(({ listUsd }) => listUsd),
    tier_usd: sum(({ tierUsd }) => tierUsd),
    paid_usd: sum(({ paidUsd }) => paidUsd),
  };
}

function statedUsd(tallies: readonly UsageTally[]): number | null {
  const stated = tallies.filter(({ isStated }) => isStated);
  return stated.length === 0 ? null : sumOf(stated).statedNanoUsd / 1e9;
}

function sumOf(tallies: readonly UsageTally[]): TallySums {
  return tallies.reduce((sum, tally) => addSums(sum, tally.sums), emptySums());
}

function tokensOf(sums: TallySums): AuditTokens {
  return {
    fresh_input: sums.inputTokens - sums.cachedTokens - sums.cacheWriteTokens,
    cached_input: sums.cachedTokens,
    cache_write: sums.cacheWriteTokens,
    output: sums.outputTokens,
  };
}

function nameOfModel({ provider, model }: UsageTally): string {
  return `${provider || "?"}:${model || "?"}`;
}

function groupedBy<K>(tallies: readonly UsageTally[], keyOf: (tally: UsageTally) => K): Map<K, UsageTally[]> {
  const groups = new Map<K, UsageTally[]>();
  for (const tally of tallies) {
    const key = keyOf(tally);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [tally]);
    else group.push(tally);
  }
  return groups;
}

function byName([a]: readonly [string, number], [b]: readonly [string, number]): number {
  return a < b ? -1 : 1;
}
