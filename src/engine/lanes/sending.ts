/**
 * What sends the items of an engine.
 *
 *   shardFeed -> backlog -> lanes -> sender
 */
import { createDispatcher } from "../../dispatch/dispatcher.ts";
import { RETRY_POLICY } from "../../dispatch/retry.ts";
import type { PriceBook } from "../../price/price_book.ts";
import type { Batches } from "../batches/batches.ts";
import { CheaperLanes } from "../batches/cheaper_lanes.ts";
import type { EngineConfig } from "../config/config.ts";
import { Failover } from "../failover/failover.ts";
import { memberLane } from "../failover/member_lane.ts";
import { Backlog } from "../items/backlog.ts";
import { ClaimedBytes } from "../items/claimed_bytes.ts";
import { CostBounds } from "../items/cost_bounds.ts";
import type { ItemCall } from "../items/item_call.ts";
import { ItemLoads } from "../items/item_loads.ts";
import { ItemMoney } from "../items/item_money.ts";
import { ItemPatience } from "../items/patience.ts";
import type { EngineStorage } from "../journal/storage.ts";
import type { LearntFigures } from "../learnt/learnt_figures.ts";
import type { LeasedTransport } from "../leased_transport.ts";
import { ProviderLimits } from "../limits/provider_limits.ts";
import { mediaFiles } from "../media/media_files.ts";
import { CacheRules } from "../prefixes/cache_rules.ts";
import type { Seams } from "../seams.ts";
import { createBatches, type RemoteWires, remoteWiresOf } from "./batch_sending.ts";
import { EngineHolds } from "./engine_holds.ts";
import { KeyTrials } from "./key_trials.ts";
import { Lanes } from "./lanes.ts";
import { ModelClients } from "./model_clients.ts";
import { ModelLanes } from "./model_lanes.ts";
import { Sender } from "./sender.ts";
import { ShardFeed } from "./shard_feed.ts";

/** One for an engine. */
export interface Sending {
  /** Where runs bring what they have read. */
  readonly shardFeed: ShardFeed;
  readonly backlog: Backlog;
  readonly lanes: Lanes;
  readonly sender: Sender;
  readonly holds: EngineHolds;
  readonly batches: Batches;
  readonly remoteWires: RemoteWires;
  /** What plans count on: also wires of providers whose key is missing, because nothing is sent there before it is set. */
  readonly plannedWires: RemoteWires;
  /** What answers take, as far as it was measured. */
  readonly patience: Pick<ItemPatience, "quantileMs">;
  readonly failover: Failover;
  /** What requests leave through where the store has a lease. */
  readonly leased: LeasedTransport | undefined;
}

/** What an engine says of all that it sends. */
export interface SendingGate {
  readonly mayAdmit: (isRecorded: boolean) => boolean;
  /** Whether items of runs, in their journals, and posted ones, in the work log, are sent side by side. */
  readonly hasTwoLogs: () => boolean;
}

/** Builds them; the sender and the lanes know each other. */
export function createSending(
  { transport, leased, codecs, learnt, observer, notice, limitPool }: Seams,
  config: EngineConfig,
  { prices, answers, latencies, lengths, fits }: LearntFigures & { readonly prices: PriceBook },
  storage: EngineStorage,
  { mayAdmit, hasTwoLogs }: SendingGate,
): Sending {
  const { clock } = storage;
  const { isAtMostOnce, keysMissing, providers } = config;
  const backlog = new Backlog();
  const patience = new ItemPatience({ clock, isAtMostOnce, latencies });
  const trials = new KeyTrials(config, learnt, notice);
  const claimed = new ClaimedBytes(() => lanes.pumpAll());
  const loads = new ItemLoads({ answers, lengths, fits });
  const wires = new ModelClients(providers, codecs);
  const failover: Failover = new Failover({
    clock,
    aliases: config.aliases,
    laneOf: (model) => {
      const { key, provider } = sender.models.of(model);
      return memberLane(key, lanes.find(key), keysMissing.has(provider), clock.nowMs());
    },
    pump: (model) => lanes.find(sender.models.of(model).key)?.pump(),
    place: (owner, shards) => shardFeed.place(owner, shards),
  });
  const sender: Sender = new Sender({
    claimed,
    trials,
    clock,
    wires,
    money: new ItemMoney(clock, prices, new CostBounds(learnt, providers), lengths),
    models: new ModelLanes(config, {
      nowMs: () => clock.nowMs(),
      capacityOf: ({ key }) => lanes.forecasts.capacityOf(key),
    }),
    lanes: {
      of: (key) => lanes.of(key),
      lanesOf: (provider) => lanes.lanesOf(provider),
      answered: (lane) => lanes.answered(lane),
      freed: (lane) => lanes.freed(lane),
      failover,
    },
    hasTwoLogs,
    observer,
    patience,
    loads,
  });
  const remoteWires = remoteWiresOf(config);
  const wired = { leased, remoteWires, plannedWires: remoteWiresOf({ ...config, keysMissing: new Map() }) };
  const batches = createBatches(transport, config, storage, {
    ...{ sender, wires, patience, caching: new CacheRules(config.prefixes, prices), known: remoteWires },
    lanes: () => lanes,
    holds: () => holds,
    feed: () => shardFeed,
  });
  const lanes: Lanes = new Lanes({
    ...{ trials, clock, config, backlog, sender, patience, claimed, mayAdmit },
    limits: new ProviderLimits({ ...{ clock, config, learnt, pool: limitPool }, lanes: () => lanes }),
    cheaper: new CheaperLanes(batches, config, patience, prices, sender.money),
    onHold: () => {
      holds.changed();
      failover.watch();
    },
  });
  const holds = new EngineHolds(lanes, storage.room, clock);
  sender.dispatcher = createDispatcher<ItemCall>({
    clock: lanes.retries,
    transport,
    admission: sender,
    policy: { ...RETRY_POLICY, ambiguousMax: isAtMostOnce ? 0 : RETRY_POLICY.ambiguousMax },
    ...{ patience, hedging: sender.secondAttempts },
    filesOf: ({ shard, owner, provider }) =>
      shard.group.hasInserts === true ? mediaFiles(storage, owner.settings, provider.settings) : undefined,
  });
  const shardFeed = new ShardFeed({ clock, backlog, lanes, sender, keysMissing });
  return { shardFeed, backlog, lanes, sender, holds, batches, patience, failover, ...wired };
}
