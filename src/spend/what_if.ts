/**
 * What requests cost at list price, in the tier that they had, and what they would be expected to cost with an sla. Pure.
 *
 *   list      = fresh x input + cached x cached + written x write + written for an hour x 2 x input + output x output
 *   in a tier = list x the tier's factor, cached input x its own factor             (price/lane_factors.ts)
 *   rescue    = 2 x p99 of realtime + 5 s, T = sla - rescue                          (queue/offer_choice.ts)
 *   late(T)   = 1 % from the tier's p99 on, 10 % from its p90 on                     (queue/lane_priors.ts)
 *   flex      if p90 <= T:  (1 - refused) x (tier + late(T) x realtime) + refused x realtime
 *   batch     if p99 <= T:  tier + max(late(T), share without an end) x realtime
 *   off-peak  if the price falls within T:  list at the later price
 *   expected  = the least of these, of realtime, and of what was paid
 *
 * What is late at the switch is sent again in realtime and counted as paid twice, as if no provider dropped the first attempt
 * without charge: so the expected cost is rather too high. What was paid is the cost in the tier that the log names, or what
 * the log states if that is less: no saving is claimed for work that already was in a cheaper tier. Writes for an hour cost
 * twice the input at Anthropic (https://docs.claude.com/en/docs/build-with-claude/prompt-caching#pricing).
 */
import { HOUR_WRITE_FACTOR } from "../price/cost.ts";
import { type LaneFactor, laneFactor, laneFactorOf, laneTierOf } from "../price/lane_factors.ts";
import type { PriceRates } from "../price/rates.ts";
import { batchPrior, FLEX_REFUSED_SHARE, lateShare, mayHaveFlex } from "../queue/lane_priors.ts";
import { rescueMs } from "../queue/offer_choice.ts";
import { offersOf } from "../queue/offers.ts";
import type { TallySums, UsageTally } from "./model_tallies.ts";

/** The tier that work would go to. `kept`: it stays where it was. */
export type WhatIfTier = "kept" | "realtime" | "flex" | "batch" | "offpeak";

export interface WhatIf {
  readonly tier: WhatIfTier;
  readonly expectedUsd: number;
}

/** What a tally cost. */
export interface TallyCost {
  /** At list price, in realtime. */
  readonly listUsd: number;
  /** At list price in the tier that the log names; realtime without one, and for a name that is not known. */
  readonly tierUsd: number;
  /** What is compared with: the least of `tierUsd` and of what the log states. */
  readonly paidUsd: number;
}

const REALTIME: LaneFactor = { factor: 1, cachedFactor: 1, isVerified: true };
const MINUTE_MS = 60_000;

/** Milliseconds of an sla within which a cheaper tier must have answered. */
export function waitMsOf(slaMinutes: number): number {
  return slaMinutes * MINUTE_MS - rescueMs();
}

/** Undefined without a price. */
export function costOfTally(tally: UsageTally): TallyCost | undefined {
  const { rates, sums, provider, tier } = tally;
  if (rates === undefined) return undefined;
  const listUsd = usdOf(rates, sums, REALTIME);
  const isKnown = laneTierOf(tier) !== undefined;
  const tierUsd = isKnown ? usdOf(rates, sums, laneFactorOf(provider, tier)) : listUsd;
  const statedUsd = tally.isStated ? sums.statedNanoUsd / 1e9 : Number.POSITIVE_INFINITY;
  return { listUsd, tierUsd, paidUsd: Math.min(tierUsd, statedUsd) };
}

/** Where a tally with a price would go with an sla, and what it would cost there. `slaIndex`: of the slas, ascending. */
export function whatIf(tally: UsageTally, cost: TallyCost, slaMinutes: number, slaIndex: number): WhatIf {
  let best: WhatIf = { tier: "kept", expectedUsd: cost.paidUsd };
  if (laneTierOf(tally.tier) === undefined) return best; // a tier of unknown price: nothing can be claimed
  const candidates = [
    { tier: "realtime", expectedUsd: cost.listUsd } as const,
    flexOf(tally, cost.listUsd, waitMsOf(slaMinutes)),
    batchOf(tally, cost.listUsd, waitMsOf(slaMinutes)),
    offPeakOf(tally, slaIndex),
  ];
  for (const one of candidates) if (one !== undefined && one.expectedUsd < best.expectedUsd) best = one;
  return best;
}

function flexOf(
  { rates, sums, provider, model }: UsageTally,
  listUsd: number,
  waitMs: number,
): WhatIf | undefined {
  const factor = laneFactor(provider, "flex");
  const offer = offersOf(provider, () => factor?.factor).find(({ kind }) => kind === "flex");
  if (rates === undefined || factor === undefined || offer?.kind !== "flex") return undefined;
  if (!mayHaveFlex(provider, model) || offer.prior.p90 > waitMs) return undefined;
  const late = lateShare(offer.prior, waitMs);
  const answered = usdOf(rates, sums, factor) + late * listUsd;
  return {
    tier: "flex",
    expectedUsd: (1 - FLEX_REFUSED_SHARE) * answered + FLEX_REFUSED_SHARE * listUsd,
  };
}

function batchOf({ rates, sums, provider }: UsageTally, listUsd: number, waitMs: number): WhatIf | undefined {
  const factor = laneFactor(provider, "batch");
  const prior = batchPrior(provider);
  if (rates === undefined || factor === undefined || prior === undefined || prior.p99 > waitMs)
    return undefined;
  const late = Math.max(lateShare(prior, waitMs), prior.unendedShare);
  return { tier: "batch", expectedUsd: usdOf(rates, sums, factor) + late * listUsd };
}

function offPeakOf({ later, sums }: UsageTally, slaIndex: number): WhatIf | undefined {
  if (later === undefined || later.slaIndex > slaIndex) return undefined;
  return { tier: "offpeak", expectedUsd: usdOf(later.rates, sums, REALTIME) };
}

function usdOf(rates: PriceRates, sums: TallySums, { factor, cachedFactor }: LaneFactor): number {
  const { inputTokens, cachedTokens, cacheWriteTokens, hourWriteTokens, outputTokens } = sums;
  const fresh = inputTokens - cachedTokens - cacheWriteTokens;
  const others =
    fresh * rates.inputUsdPerMillion +
    (cacheWriteTokens - hourWriteTokens) * rates.cacheWriteUsdPerMillion +
    hourWriteTokens * HOUR_WRITE_FACTOR * rates.inputUsdPerMillion +
    outputTokens * rates.outputUsdPerMillion;
  return (others * factor + cachedTokens * rates.cachedUsdPerMillion * cachedFactor) / 1e6;
}
