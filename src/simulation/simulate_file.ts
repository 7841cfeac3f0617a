/**
 * `perigee simulate`: reads the shape of a file, puts together what the engine knows of its lanes, and simulates it. Sends nothing.
 *
 *   limits     as configured, and as learnt of providers
 *   latencies  given, else learnt of the model, else 1 s and 50 tokens a second
 *   flex       queue/lane_priors.ts, or `lanes.priors`; 5 % of requests are refused
 *   batches    queue/lane_priors.ts, or `lanes.priors`; a share of them never ends where that was seen
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { type LaneRules, laneRules } from "../engine/config/lane_rules.ts";
import type { EngineCore } from "../engine/core.ts";
import { closeInput, openInput, type Source } from "../engine/files/input.ts";
import { readRunSchema, type SchemaOptions } from "../engine/schemas/run_schema.ts";
import { LaneLimits } from "../limits/limits.ts";
import { remoteFactor } from "../price/lane_factors.ts";
import { type BasePrice, isFree } from "../price/rates.ts";
import { servesAll } from "../providers/batches/batch_endpoints.ts";
import type { BatchEndpoint } from "../providers/batches/batch_wire.ts";
import { batchWireOf } from "../providers/batches/batch_wires.ts";
import type { LaneChoices, LanePolicy } from "../queue/lane_choice.ts";
import {
  FLEX_REFUSED_SHARE,
  type LatencyPrior,
  latencyPrior,
  mayHaveFlex,
  unendedShare,
} from "../queue/lane_priors.ts";
import { familyOf, laneKey } from "../queue/lanes.ts";
import { curveOf } from "../queue/plan/latency_curve.ts";
import { parseModelId } from "../work/request.ts";
import { parseSlaMinutes } from "../work/sla.ts";
import { ExpectedItems } from "./expected_items.ts";
import { countsOf, type FileShape, readShape } from "./file_shape.ts";
import { type FileSimulation, type SimulatedModel, simulateWork } from "./file_simulation.ts";
import type { BatchPlan, OfferPlan, SimulatedLanePlan } from "./lane_plan.ts";
import { LatencyTable } from "./latency_table.ts";

/** Items of one batch at most (engine/batches/batch_spool.ts). */
const BATCH_ITEMS_MAX = 100_000;

/** What is simulated. */
export interface SimulateOptions extends SchemaOptions {
  readonly sla?: number | undefined;
  readonly model?: string | undefined;
  /** A cap on what is billed, in USD. */
  readonly maxCostUsd?: number | undefined;
  readonly lanes?: LaneChoices;
  readonly policy?: LanePolicy;
  readonly minOnTime?: number;
  /** Of the first simulation; 1. */
  readonly seed?: number | undefined;
  readonly seeds?: number | undefined;
  /** Of answers in realtime, in milliseconds, in place of what was learnt. */
  readonly latency?: LatencyPrior | undefined;
  /** Of each answer, in place of what was learnt. */
  readonly outputTokens?: number | undefined;
}

/** Throws as `run` does for an input that cannot be read. */
export async function simulateFile(
  core: EngineCore,
  source: Source,
  options: SimulateOptions,
): Promise<FileSimulation> {
  const slaMinutes = parseSlaMinutes(options.sla, "simulate");
  const shape = await shapeOf(core, source, options);
  const rules = laneRules(core.config.lanes, options);
  const { maxInFlight } = core.config;
  const latencies = shape.models.map((model) => latencyOf(core, model, options));
  const work = {
    shape,
    lanes: lanePlans(
      core,
      shape,
      rules,
      latencies.map(({ table }) => table),
    ),
    shared: core.config.limits,
    terms: {
      deadlineMs: slaMinutes === undefined ? Number.POSITIVE_INFINITY : slaMinutes * 60_000,
      policy: rules.policy,
      minOnTime: rules.minOnTime,
      maxInFlight,
    },
    maxUsd: options.maxCostUsd ?? Number.POSITIVE_INFINITY,
  };
  return simulateWork(work, {
    slaMinutes,
    seed: options.seed ?? 1,
    seeds: options.seeds,
    latencies: latencies.map(({ basis }) => basis),
    unpricedModels: shape.models.filter((model) => priceOf(core, model) === undefined),
  });
}

async function shapeOf(core: EngineCore, source: Source, options: SimulateOptions): Promise<FileShape> {
  const { disk, dataDir } = core.storage;
  const spool = join(dataDir, "tasks", `simulate-${randomUUID()}.jsonl`);
  const { schema: given, schemaTries } = options;
  const { json: schema, fit } = await readRunSchema({
    ...(given === undefined ? {} : { schema: given }),
    ...(schemaTries === undefined ? {} : { schemaTries }),
  });
  const input = await openInput(core.storage, source, spool);
  const { answers, fits } = core.figures;
  const expected = new ExpectedItems({
    ...{ answers, fits },
    checked: { isChecked: schema !== undefined, answersMax: fit.answersMax },
    priceOf: (model) => priceOf(core, model),
    outputTokens: options.outputTokens,
  });
  try {
    const sizeBytes = input.identity?.sizeBytes ?? 0;
    return await readShape(core, input.file, expected, { model: options.model, sizeBytes, schema });
  } finally {
    await closeInput(disk, input, "remove");
  }
}

function priceOf({ figures, storage }: EngineCore, model: string): BasePrice | undefined {
  const id = parseModelId(model);
  return id === undefined ? undefined : figures.prices.price(id, storage.clock.wallMs());
}

interface KnownLatency {
  readonly table: LatencyTable | undefined;
  readonly basis: SimulatedModel["latency"];
}

function latencyOf({ figures }: EngineCore, model: string, { latency }: SimulateOptions): KnownLatency {
  if (latency !== undefined) return { table: new LatencyTable(curveOf(latency)), basis: "given" };
  const estimate = figures.answers.of(model, 0);
  if (estimate === undefined) return { table: undefined, basis: "assumed" };
  const { meanLn, varianceLn } = estimate;
  const at = (deviations: number): number => Math.exp(meanLn + deviations * Math.sqrt(varianceLn));
  const learnt = { p50: at(0), p90: at(1.2815515655446004), p99: at(2.3263478740408408) };
  return { table: new LatencyTable(curveOf(learnt)), basis: "learnt" };
}

function lanePlans(
  core: EngineCore,
  shape: FileShape,
  rules: LaneRules,
  tables: readonly (LatencyTable | undefined)[],
): SimulatedLanePlan[] {
  const { config } = core;
  const modelsOf = new Map<string, { provider: string; family: string; models: number[] }>();
  for (const [number, model] of shape.models.entries()) {
    const { provider = model, name = "" } = parseModelId(model) ?? {};
    const family = familyOf(provider, name, config.families);
    const key = laneKey(provider, "realtime", family);
    const lane = modelsOf.get(key) ?? { provider, family, models: [] };
    lane.models.push(number);
    modelsOf.set(key, lane);
  }
  const rows = rowsOf(
    shape,
    [...modelsOf.values()].map(({ models }) => models),
  );
  return [...modelsOf].map(([key, { provider, family, models }], index) => {
    const names = models.map((model) => shape.models[model] as string);
    const endpoints = models.flatMap((model) => [...(shape.endpoints[model] ?? [])]);
    return {
      provider,
      family,
      rows: rows[index] as Int32Array,
      limits: limitsOf(core, key, provider, family),
      realtime: new Map(models.map((model) => [model, tables[model]])),
      isTried:
        isTried(core, provider) && names.every((name) => core.figures.answers.of(name, 0) === undefined),
      offer: endpoints.every((each) => each === "chat") ? offerOf(core, provider, names, rules) : undefined,
      batch: batchOf(core, provider, { names, endpoints }, rules),
    };
  });
}

/** Whether a mistake in the key is looked for with the first requests (engine/lanes/key_trials.ts). */
function isTried({ config }: EngineCore, provider: string): boolean {
  const settings = config.providers.find(({ name }) => name === provider);
  return config.keysUnset.has(provider) || config.keysMissing.has(provider) || settings?.key !== undefined;
}

function rowsOf(shape: FileShape, lanes: readonly (readonly number[])[]): Int32Array[] {
  const laneOf = new Uint16Array(shape.models.length);
  for (const [lane, models] of lanes.entries()) for (const model of models) laneOf[model] = lane;
  const counts = countsOf(shape.modelOf, shape.items, shape.models.length);
  const rows = lanes.map(
    (models) => new Int32Array(models.reduce((sum, model) => sum + (counts[model] as number), 0)),
  );
  const filled = new Uint32Array(lanes.length);
  for (let row = 0; row < shape.items; row += 1) {
    const lane = laneOf[shape.modelOf[row] as number] as number;
    const place = filled[lane] as number;
    (rows[lane] as Int32Array)[place] = row;
    filled[lane] = place + 1;
  }
  return rows;
}

/** As an engine makes them, with what an earlier process has learnt of them. */
function limitsOf(
  { config, sending, storage }: EngineCore,
  key: string,
  provider: string,
  family: string,
): SimulatedLanePlan["limits"] {
  const known = sending.lanes.of(key).limits.known(storage.clock.nowMs());
  return (nowMs, random, shared) => {
    const limits = new LaneLimits({
      settings: config.limits[`${provider}:${family}`] ?? {},
      inFlightMax: config.maxInFlight,
      nowMs,
      random,
      shared,
      ramp: config.ramps[provider],
    });
    if (known !== undefined) limits.restoreKnown(nowMs, 0, known);
    return limits;
  };
}

/** Undefined where the provider has none, or where it is for hours of the day. */
function offerOf(
  { config }: EngineCore,
  provider: string,
  models: readonly string[],
  { lanes }: LaneRules,
): OfferPlan | undefined {
  const offer = config.offers.get(provider)?.find(({ kind }) => kind !== "offpeak");
  if (offer === undefined || offer.kind === "offpeak") return undefined;
  const { kind, prior } = offer;
  const isFor = models.every(
    (model) =>
      lanes.allows(kind, model) &&
      (kind !== "flex" || mayHaveFlex(provider, parseModelId(model)?.name ?? "")),
  );
  if (!isFor) return undefined;
  const refusedShare = kind === "flex" ? FLEX_REFUSED_SHARE : 0;
  return { offer, latency: new LatencyTable(curveOf(prior)), refusedShare };
}

/** Undefined where the provider has none, or sells them for more. */
function batchOf(
  { config, figures, storage }: EngineCore,
  provider: string,
  { names, endpoints }: { readonly names: readonly string[]; readonly endpoints: readonly BatchEndpoint[] },
  { lanes }: LaneRules,
): BatchPlan | undefined {
  const settings = config.providers.find(({ name }) => name === provider);
  const priceFactor = remoteFactor(provider, "batch", config.batches.factors);
  if (settings === undefined || priceFactor === undefined || config.isAtMostOnce) return undefined;
  if (!names.every((model) => lanes.allows("batch", model))) return undefined;
  const wire = batchWireOf(settings, config.batches.settings.get(provider));
  if (wire === undefined || !servesAll(wire, endpoints)) return undefined;
  const { itemsMax, bytesMax, enqueuedTokensMax = Number.POSITIVE_INFINITY } = wire.limits;
  const prior = latencyPrior(provider, "batch", config.lanes.priors);
  const wallMs = storage.clock.wallMs();
  return {
    isFree: names.every((model) => isFree(figures.prices.priceOf(model, wallMs).price)),
    priceFactor,
    prior,
    latency: new LatencyTable(curveOf(prior, unendedShare(provider, config.lanes.priors))),
    pollMs: config.lanes.pollMs,
    itemsMax: Math.min(itemsMax, BATCH_ITEMS_MAX),
    bytesMax,
    enqueuedTokensMax,
    keepsOnCancel: wire.traits.keepsOnCancel,
  };
}
