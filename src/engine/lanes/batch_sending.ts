/**
 * The batches of an engine, with what they ask of its lanes: which providers have them, what they take, and where items go back to.
 *
 *   a provider has batches: its wire is known, it does not sell them for more, its key is set, and the configuration allows them
 *   a provider defers:      the same, and the configuration says what that costs
 */
import type { Transport } from "../../dispatch/transport.ts";
import { remoteFactor } from "../../price/lane_factors.ts";
import type { RemoteKind, RemoteWire } from "../../providers/batches/batch_wire.ts";
import { joinBounds } from "../../providers/endpoints/joins.ts";
import { NO_LOAD } from "../../queue/due_work.ts";
import { isChosen } from "../../queue/lane_choice.ts";
import { latencyPrior, learntLatency } from "../../queue/lane_priors.ts";
import { requestsOf } from "../../shard/joined_body.ts";
import type { Shard } from "../../shard/shard.ts";
import { parseModelId } from "../../work/request.ts";
import { BatchCalls } from "../batches/batch_calls.ts";
import { Batches, type BatchServices } from "../batches/batches.ts";
import { remoteWireOf } from "../config/batch_options.ts";
import type { EngineConfig } from "../config/config.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { ItemPatience } from "../items/patience.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { BatchPrefixes } from "../prefixes/batch_prefixes.ts";
import type { CacheRules } from "../prefixes/cache_rules.ts";
import type { EngineHolds } from "./engine_holds.ts";
import type { Lanes } from "./lanes.ts";
import type { ModelClients } from "./model_clients.ts";
import type { Sender } from "./sender.ts";

/** Of providers that have batches or a deferred tier: the wires of each kind by their names. */
export type RemoteWires = Readonly<Record<RemoteKind, ReadonlyMap<string, RemoteWire>>>;

/** What is made after batches, and needed by them later. */
export interface BatchSurroundings {
  readonly lanes: () => Lanes;
  readonly holds: () => EngineHolds;
  readonly sender: Sender;
  readonly feed: () => { add(owner: ItemOwner, shards: readonly Shard[]): Promise<void> };
  readonly wires: ModelClients;
  readonly patience: ItemPatience;
  readonly caching: CacheRules;
  readonly known: RemoteWires;
}

/** One for an engine. */
export function createBatches(
  transport: Transport,
  config: EngineConfig,
  storage: EngineStorage,
  { lanes, holds, sender, feed, wires, patience, caching, known }: BatchSurroundings,
): Batches {
  const { pollMs, adoptMs, minItems, priors } = config.lanes;
  const latencyKey = (model: string, kind: RemoteKind) => ({
    model: `${model} (${kind})`,
    maxOutputTokens: 0,
  });
  const services: BatchServices = {
    storage,
    calls: new BatchCalls(storage.clock, transport, storage.disk),
    money: sender.money,
    prefixes: new BatchPrefixes(caching, storage.clock),
    times: { pollMsMin: pollMs.min, pollMsMax: pollMs.max, adoptMs },
    minItems,
    wireOf: (model, kind) => known[kind].get(providerOf(model)),
    isAllowed: (model, { settings }, kind) => settings.lanes.allows(kind, model),
    providerOf: (model, kind) => wires.of(model, kind).provider,
    latencyOf: (model, kind) => {
      const prior = latencyPrior(providerOf(model), kind, priors);
      const key = latencyKey(model, kind);
      return learntLatency((share) => patience.quantileMs(key, share), prior);
    },
    learn: ({ model, kind = "batch" }, tookMs) => patience.ended(latencyKey(model, kind), tookMs),
    checked: (model, answer) => sender.loads.checked(model, answer),
    sharesRequests: ({ model, lane, items, inputTokens }) => {
      const { settings } = wires.of(model, "embedding").provider;
      const bounds = joinBounds(settings, undefined, undefined); // its lines are not read for their settings
      lanes()
        .of(lane)
        .pace.arrived(items, requestsOf(bounds, items, inputTokens));
    },
    drainMs: (lane, deadlineMs, elsewhere, taken) => {
      const { forecasts } = lanes();
      return forecasts.drainMs(lanes().of(lane), deadlineMs, { beside: NO_LOAD, elsewhere, taken });
    },
    batchedElsewhere: (lane, deadlineMs) => lanes().batchedElsewhere(lane, deadlineMs),
    poolOf: (lane) => lanes().poolOf(lane),
    countedMs: (lane) => lanes().forecasts.countedMs(lanes().of(lane)),
    realtimeP99Ms: (model) => patience.quantileMs({ model, maxOutputTokens: 0 }, 0.99),
    feed: { add: (owner, shards) => feed().add(owner, shards) },
    changed: () => {
      holds().changed();
      lanes().pumpAll();
    },
  };
  return new Batches(services);
}

/** The wires of both kinds. */
export function remoteWiresOf(config: EngineConfig): RemoteWires {
  return { batch: wiresOf(config, "batch"), deferred: wiresOf(config, "deferred") };
}

function wiresOf(config: EngineConfig, kind: RemoteKind): ReadonlyMap<string, RemoteWire> {
  const { providers, keysMissing, isAtMostOnce, lanes, batches } = config;
  if (isAtMostOnce) return new Map(); // what a batch was too slow for could not be sent again
  return new Map(
    providers.flatMap((settings) => {
      const { name } = settings;
      if (keysMissing.has(name) || remoteFactor(name, kind, batches.factors) === undefined) return [];
      if (!isChosen(name, kind, lanes.choices)) return [];
      const wire = remoteWireOf(settings, batches, kind);
      return wire === undefined ? [] : [[name, wire] as const];
    }),
  );
}

function providerOf(model: string): string {
  return parseModelId(model)?.provider ?? model.split(":", 1)[0] ?? "";
}
