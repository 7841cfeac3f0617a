/**
 * What is sold for a model at this moment, as a plan takes it: the lanes that its work may use, with prices, latencies as they were
 * measured or are known, limits, and what leaving them takes.
 *
 *   realtime   every model
 *   flex, slow where its provider sells them, and as far as is known the model has them; chats only
 *   offpeak    where the price list has a lower price from a later moment on; chats only
 *   batch      where the provider's wire is known, and has the endpoints of all items of the model; also before its key is set
 *   deferred   the same, where the configuration says its price
 *
 * Limits: work of several models in one lane, or of lanes that share limits, has its part of them, by items and tokens.
 */
import { remoteFactor } from "../../price/lane_factors.ts";
import { type MeanRates, meanRates } from "../../price/mean_rates.ts";
import type { ModelTotals } from "../../price/quote.ts";
import type { BasePrice } from "../../price/rates.ts";
import { servesAll } from "../../providers/batches/batch_endpoints.ts";
import type { BatchTraits, RemoteWire } from "../../providers/batches/batch_wire.ts";
import { cancelMsOf, collectMsOf } from "../../queue/batch_choice.ts";
import {
  FLEX_REFUSED_SHARE,
  type LanePriors,
  type LatencyPrior,
  latencyPrior,
  learntLatency,
  mayHaveFlex,
  unendedShare,
} from "../../queue/lane_priors.ts";
import { REALTIME_P99_MS } from "../../queue/offer_choice.ts";
import type { TierOffer } from "../../queue/offers.ts";
import { curveOf, type LatencyCurve } from "../../queue/plan/latency_curve.ts";
import type { BatchResults, PlanOffer } from "../../queue/plan/plan_input.ts";
import type { Capacity } from "../../queue/planner.ts";
import { parseModelId } from "../../work/request.ts";
import type { LaneRules } from "../config/lane_rules.ts";
import type { EngineCore } from "../core.ts";
import { usableBy } from "../lanes/forecasts.ts";
import type { LaneShares } from "../lanes/work_times.ts";
import type { ModelWork } from "../learnt/expected_usage.ts";
import { PLACES_SHARE } from "../offers/tier_offers.ts";

const Z90 = 1.2815515655446004;

/** One model's work, and where it may go. */
export interface PlannedOffers {
  readonly work: ModelWork;
  readonly rows: readonly ModelTotals[];
  readonly shares: LaneShares;
  readonly rules: LaneRules;
  /** Monotonic; Infinity without one. */
  readonly deadlineMs: number;
}

/** The lanes that may have the work; realtime first. A model without a known price costs 1 USD a million tokens here. */
export function planOffers(core: EngineCore, terms: PlannedOffers): readonly PlanOffer[] {
  const { work, rows, shares, rules, deadlineMs } = terms;
  const { model, items } = work;
  const provider = parseModelId(model)?.provider ?? "";
  const wallMs = core.storage.clock.wallMs();
  const { price } = core.figures.prices.priceOf(model, wallMs);
  const rates = price === undefined ? UNKNOWN : meanRates(rows, price);
  const requestMs = work.busyMs / Math.max(1, work.requests);
  const { forecasts } = core.sending.lanes;
  const known = forecasts.plannedCapacity(model, requestMs, shares, deadlineMs);
  const usable = usableBy(known, { ...work, items: work.requests });
  const capacity = forPacks(usable, items / Math.max(1, work.requests));
  const realtime = realtimeOffer(core, work, { provider, rates, capacity });
  const isChat = work.endpoints.every((endpoint) => endpoint === "chat");
  const cheaper = (core.config.offers.get(provider) ?? []).slice(0, 1).flatMap((offer) => {
    if (!isChat || !rules.lanes.allows(offer.kind, model)) return [];
    if (offer.kind === "offpeak") return price === undefined ? [] : offPeakOffer(core, price, realtime);
    if (offer.kind === "flex" && !mayHaveFlex(provider, parseModelId(model)?.name ?? "")) return [];
    return [tierOffer(core, work, offer, { provider, rates, capacity })];
  });
  const remote = (["batch", "deferred"] as const).flatMap((kind) => {
    const wire = rules.lanes.allows(kind, model) ? core.sending.plannedWires[kind].get(provider) : undefined;
    return wire === undefined || !servesAll(wire, work.endpoints) || isTooSoon(core, terms, wire)
      ? []
      : [remoteOffer(core, terms, wire, { provider, rates })];
  });
  return [realtime, ...cheaper, ...remote];
}

/** The capacity in items, where `itemsPerRequest` of them (from 1) share a request. */
function forPacks(capacity: Capacity, itemsPerRequest: number): Capacity {
  if (itemsPerRequest <= 1) return capacity;
  const all = (count: number | undefined): number | undefined =>
    count === undefined ? undefined : count * itemsPerRequest;
  const { requestsPerMinute, concurrency, concurrencyNow } = capacity;
  return {
    ...capacity,
    requestsPerMinute: all(requestsPerMinute),
    concurrency: all(concurrency),
    concurrencyNow: all(concurrencyNow),
  };
}

const UNKNOWN: MeanRates = { usdPerInputToken: 1e-6, usdPerFreshToken: 1e-6, usdPerOutputToken: 1e-6 };

interface LaneFigures {
  readonly provider: string;
  readonly rates: MeanRates;
  readonly capacity: Capacity;
}

function realtimeOffer(
  { sending }: EngineCore,
  { model, requests, busyMs, latencies, isMeasured }: ModelWork,
  { provider, rates, capacity }: LaneFigures,
): PlanOffer {
  const { usdPerInputToken, usdPerOutputToken } = rates;
  const p99 = sending.patience.quantileMs({ model, maxOutputTokens: 0 }, 0.99) ?? REALTIME_P99_MS;
  const meanMs = busyMs / Math.max(1, requests);
  const [group] = latencies;
  const isSpread = isMeasured && group !== undefined && latencies.length === 1;
  const p50 = Math.min(p99, isSpread ? Math.exp(group.meanLn) : meanMs);
  const spread = isSpread ? Math.exp(Z90 * Math.sqrt(group.varianceLn)) : 2;
  const latency = curveOf({ p50, p90: Math.min(p99, p50 * spread), p99 });
  const name = `${provider}:realtime`;
  return { name, kind: "realtime", priceFactor: 1, usdPerInputToken, usdPerOutputToken, latency, capacity };
}

/** It shares the limits of realtime, refuses a part, and has not all places. */
function tierOffer(
  { sending }: EngineCore,
  { model }: ModelWork,
  { kind, priceFactor, prior }: TierOffer,
  { provider, rates, capacity }: LaneFigures,
): PlanOffer {
  const { usdPerFreshToken, usdPerOutputToken } = rates;
  const known = learntLatency(
    (share) => sending.patience.quantileMs({ model: `${model} (${kind})`, maxOutputTokens: 0 }, share),
    prior,
  );
  const places = (count: number | undefined): number | undefined =>
    count === undefined ? undefined : Math.max(1, count * PLACES_SHARE);
  const { requestsPerMinute } = capacity;
  const taken = kind === "flex" ? 1 - FLEX_REFUSED_SHARE : 1;
  return {
    name: `${provider}:${kind}`,
    kind,
    priceFactor,
    usdPerInputToken: usdPerFreshToken,
    usdPerOutputToken,
    latency: curveOf(known),
    capacity: {
      ...capacity,
      itemMs: known.p50,
      requestsPerMinute: requestsPerMinute === undefined ? undefined : requestsPerMinute * taken,
      concurrency: places(capacity.concurrency),
      concurrencyNow: places(capacity.concurrencyNow),
    },
  };
}

/** The next hours with a lower price, where the price list knows them. */
function offPeakOffer({ figures, storage }: EngineCore, now: BasePrice, realtime: PlanOffer): PlanOffer[] {
  const { clock } = storage;
  const wallMs = clock.wallMs();
  const fromWallMs = now.validUntilWallMs;
  if (!Number.isFinite(fromWallMs)) return [];
  const { price: later } = figures.prices.priceOf(now.model, fromWallMs);
  if (later === undefined) return [];
  const [input, output] = [
    later.inputUsdPerMillion / now.inputUsdPerMillion,
    later.outputUsdPerMillion / now.outputUsdPerMillion,
  ];
  if (!(input <= 1 && output <= 1 && input + output < 2)) return [];
  const atMs = (at: number): number => clock.nowMs() + (at - wallMs);
  return [
    {
      ...realtime,
      name: realtime.name.replace(/realtime$/, "offpeak"),
      kind: "offpeak",
      priceFactor: 1,
      usdPerInputToken: realtime.usdPerInputToken * input,
      usdPerOutputToken: realtime.usdPerOutputToken * output,
      hours: { fromMs: atMs(fromWallMs), untilMs: atMs(later.validUntilWallMs) },
    },
  ];
}

/** Whether the engine defers nothing before such a deadline: half of it would be cancelled (queue/batch_choice.ts). */
function isTooSoon(
  { sending, storage }: EngineCore,
  { work: { model, items }, deadlineMs }: PlannedOffers,
  { kind }: RemoteWire,
): boolean {
  if (kind !== "deferred") return false;
  const lane = sending.sender.models.of(model).key;
  const { latency } = sending.batches.outlooks.of(model, lane, Number.POSITIVE_INFINITY, items, { kind });
  return storage.clock.nowMs() + latency.p50 + cancelMsOf(latency) > deadlineMs;
}

function remoteOffer(
  { sending, config, storage }: EngineCore,
  { work: { model, items, inputTokens, endpoints }, deadlineMs }: PlannedOffers,
  { limits, traits, kind = "batch" }: RemoteWire,
  { provider, rates }: Omit<LaneFigures, "capacity">,
): PlanOffer {
  const lane = sending.sender.models.of(model).key;
  const { latency } = sending.batches.outlooks.of(model, lane, Number.POSITIVE_INFINITY, items, { kind });
  const held = sending.batches.loadOf(lane, Number.POSITIVE_INFINITY).own;
  let open = 0;
  for (const { kept } of sending.batches.open)
    if (kept.record.lane === lane && (kept.record.kind ?? "batch") === kind) open += 1;
  // A batch holds all that is to be sent; of deferred requests others follow those that have ended.
  const turns = kind === "batch" ? 1 : turnsIn(deadlineMs - storage.clock.nowMs(), latency);
  const tokensLeft = limits.enqueuedTokensMax && limits.enqueuedTokensMax - held.inputTokens;
  const isEmbedding = endpoints.includes("embeddings");
  const itemsMax = Math.min(limits.itemsMax, isEmbedding ? (limits.inputsMax ?? limits.itemsMax) : Infinity);
  const bytesPerItem = LINE_BYTES + BYTES_PER_TOKEN * (inputTokens / Math.max(1, items));
  return {
    name: `${provider}:${kind}`,
    kind,
    priceFactor: remoteFactor(provider, kind, config.batches.factors) ?? 1,
    usdPerInputToken: rates.usdPerFreshToken,
    usdPerOutputToken: rates.usdPerOutputToken,
    latency: kind === "deferred" ? curveOf(latency) : batchCurve(provider, latency, config.lanes.priors),
    capacity: { itemMs: 0 },
    batch: {
      ...(tokensLeft === undefined ? {} : { enqueuedTokensLeft: Math.max(0, tokensLeft) }),
      ...(limits.openMax === undefined
        ? {}
        : { openBatchesLeft: Math.max(0, limits.openMax - open) * turns }),
      itemsMax: Math.max(1, Math.min(itemsMax, Math.floor(limits.bytesMax / bytesPerItem))),
      cancelMs: cancelMsOf(latency),
      collectMs: collectMsOf(Math.min(items, limits.itemsMax)) + config.lanes.pollMs.min,
      results: resultsOf(traits),
    },
  };
}

/** How often all places are taken before a deadline, as far as nearly all requests end in time; at least once. */
function turnsIn(leftMs: number, { p90 }: LatencyPrior): number {
  return Math.max(1, Math.floor(leftMs / p90));
}

/** What a line has beside its prompt, and a token of it: the bytes of a batch are not known before it is written. */
const LINE_BYTES = 300;
const BYTES_PER_TOKEN = 5;

/** Some batches of others did not end while they were watched; what was measured or configured says it itself. */
export function batchCurve(provider: string, latency: LatencyPrior, configured: LanePriors): LatencyCurve {
  const prior = latencyPrior(provider, "batch", configured);
  const isPrior = prior.p50 === latency.p50 && prior.p99 === latency.p99;
  return curveOf(latency, isPrior ? unendedShare(provider, configured) : 0);
}

/** When the finished results of a batch can be fetched. */
function resultsOf({ showsFinished, keepsOnCancel, canCancel }: BatchTraits): BatchResults {
  if (showsFinished) return "running";
  return canCancel && keepsOnCancel ? "cancelled" : "ended";
}
