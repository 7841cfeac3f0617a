/**
 * What is known of the time of batches and of realtime beside them, as queue/batch_choice.ts decides by it.
 *
 *   what waits, as it was counted up to 100 ms ago - what has joined batches since + what is with batches -> drain
 */
import type { RemoteKind } from "../../providers/batches/batch_wire.ts";
import { type BatchOutlook, cancelMsOf } from "../../queue/batch_choice.ts";
import { bothShared, type DueLoad, NO_LOAD, ownLoad, type SharedLoad } from "../../queue/due_work.ts";
import type { LatencyPrior } from "../../queue/lane_priors.ts";
import type { ItemCall } from "../items/item_call.ts";
import { BatchLoads, JoiningLoads, type PoolOf } from "./batch_loads.ts";
import type { OpenBatch } from "./open_batch.ts";

/** What a batch holds takes realtime so much of the time until its deadline at most, so that others are waited for when it is left. */
const PIECE_SHARE = 1 / 32;
/** A batch of fewer is not worth its requests. */
const PIECE_ITEMS_MIN = 50;
/** Limits of requests and tokens a minute are divided evenly among so many items. */
const PROBED_ITEMS = 1_000;
const NOTHING: SharedLoad = ownLoad(NO_LOAD);

/** What outlooks ask of lanes and of what was learnt. */
export interface OutlookServices {
  /** What batches of a model take, as learnt or known. */
  latencyOf(model: string, kind: RemoteKind): LatencyPrior;
  /**
   * What realtime needs for what waits in a lane and is due by a deadline, and for what is `beside` it and beside all that share limits
   * with it; milliseconds. `taken`: what waits no more, although it was counted.
   */
  drainMs(lane: string, deadlineMs: number, beside: SharedLoad, taken: DueLoad): number;
  /** What other processes have with batches that needs the same limits, by a deadline. */
  batchedElsewhere(lane: string, deadlineMs: number): SharedLoad;
  /** The same for all lanes that share limits. */
  readonly poolOf: PoolOf;
  /** When what waits in a lane was counted, as `drainMs` knows it; monotonic. */
  countedMs(lane: string): number;
  realtimeP99Ms(model: string): number | undefined;
}

/** What a lane has beside what waits there, and what kind of batch it is; absent: `batch`. */
interface LoadsBeside {
  readonly kind?: RemoteKind;
  /** With batches that are left before. */
  readonly before?: SharedLoad;
  /** What will wait, too. */
  readonly coming?: DueLoad;
}

/** One for an engine. */
export class BatchOutlooks {
  readonly #services: OutlookServices;
  readonly #loads: BatchLoads;
  readonly #joining: JoiningLoads;

  /** `loads`: what is with batches. */
  constructor(services: OutlookServices, loads: BatchLoads) {
    this.#services = services;
    this.#loads = loads;
    this.#joining = new JoiningLoads((lane) => services.countedMs(lane), services.poolOf);
  }

  /** Of a batch for a model of so many items. */
  of(
    model: string,
    lane: string,
    deadlineMs: number,
    items: number,
    { kind = "batch", before = NOTHING, coming = NO_LOAD }: LoadsBeside = {},
  ): BatchOutlook {
    const arriving = ownLoad(coming);
    const latency = this.#services.latencyOf(model, kind);
    return {
      deadlineMs,
      drainMs: this.#drainMs(lane, deadlineMs, bothShared(this.loadBeside(lane, deadlineMs), arriving)),
      aheadMs: this.#drainMs(lane, deadlineMs, bothShared(before, arriving)),
      realtimeP99Ms: this.#services.realtimeP99Ms(model),
      latency,
      cancelMs: cancelMsOf(latency),
      items,
    };
  }

  /** What is with batches and due by a deadline, here and at other processes. */
  loadBeside(lane: string, deadlineMs: number): SharedLoad {
    const own = this.#loads.of(lane, deadlineMs);
    const elsewhere = this.#services.batchedElsewhere(lane, deadlineMs);
    return elsewhere.shared.items === 0 ? own : bothShared(own, elsewhere);
  }

  /** What is with batches here, by deadline; `isShared`: of all lanes that share limits with this one. */
  batched(lane: string, isShared: boolean): [deadlineMs: number, load: DueLoad][] {
    return this.#loads.all(lane, isShared);
  }

  /** What realtime needs for what waits in a lane and is due by a deadline, and for what is `beside` it; milliseconds. */
  waitingMs(lane: string, deadlineMs: number, beside: SharedLoad = NOTHING): number {
    return this.#drainMs(lane, deadlineMs, beside);
  }

  /** How many items like one may share a batch. */
  pieceItems({ lane, load, deadlineMs }: ItemCall, nowMs: number): number {
    const probed = {
      items: PROBED_ITEMS,
      inputTokens: PROBED_ITEMS * load.inputTokens,
      outputTokens: PROBED_ITEMS * load.outputTokens,
    };
    const [none, all] = [NO_LOAD, probed].map((beside) =>
      this.#services.drainMs(lane.key, Number.NEGATIVE_INFINITY, ownLoad(beside), NO_LOAD),
    ) as [number, number];
    const itemMs = Math.max(0, all - none) / PROBED_ITEMS;
    const pieceMs = (deadlineMs - nowMs) * PIECE_SHARE;
    return itemMs * PIECE_ITEMS_MIN >= pieceMs ? PIECE_ITEMS_MIN : Math.floor(pieceMs / itemMs);
  }

  /** An item that waited is with a batch from now on. */
  joins({ lane, owner, load }: ItemCall): void {
    this.#joining.add(lane.key, owner.settings.deadlineMs, { items: 1, ...load });
  }

  #drainMs(lane: string, deadlineMs: number, beside: SharedLoad): number {
    return this.#services.drainMs(lane, deadlineMs, beside, this.#joining.of(lane, deadlineMs));
  }
}

/** What is with batches of its deadline that are left before it, because they are older. `open`: oldest first. */
export function leftBefore(batch: OpenBatch, open: Iterable<OpenBatch>, poolOf: PoolOf): SharedLoad {
  const { deadlineMs } = batch.owner.settings;
  let isOlder = true;
  return loadOf({ batch, open, poolOf }, (other) => {
    if (other === batch) isOlder = false;
    return isOlder && other.owner.settings.deadlineMs === deadlineMs;
  });
}

/** What is with other batches that are due by its deadline, and that are being left. */
export function beingLeftBeside(batch: OpenBatch, open: Iterable<OpenBatch>, poolOf: PoolOf): SharedLoad {
  const { deadlineMs } = batch.owner.settings;
  return loadOf(
    { batch, open, poolOf },
    (other) => isBeingLeft(other) && other.owner.settings.deadlineMs <= deadlineMs,
  );
}

/** Whether it is the first to be left of its lane, the earliest due and the oldest of these. */
export function isNextToLeave(batch: OpenBatch, open: Iterable<OpenBatch>): boolean {
  const { lane } = batch.kept.record;
  const { deadlineMs } = batch.owner.settings;
  let isOlder = true;
  for (const other of open) {
    if (other === batch) isOlder = false;
    const { record } = other.kept;
    if (other === batch || record.lane !== lane || record.state !== "running") continue;
    const dueMs = other.owner.settings.deadlineMs;
    if (dueMs < deadlineMs || (dueMs === deadlineMs && isOlder)) return false;
  }
  return true;
}

function isBeingLeft({ kept }: OpenBatch): boolean {
  return kept.record.state === "cancelling";
}

interface Company {
  readonly batch: OpenBatch;
  readonly open: Iterable<OpenBatch>;
  readonly poolOf: PoolOf;
}

/** Of those of a batch's lane, and of all that share limits with it, without itself. */
function loadOf({ batch, open, poolOf }: Company, counts: (other: OpenBatch) => boolean): SharedLoad {
  const { lane } = batch.kept.record;
  const pool = poolOf(lane);
  const sums = new BatchLoads(poolOf);
  for (const other of open) {
    const isCounted = counts(other);
    const { record } = other.kept;
    if (!isCounted || other === batch || poolOf(record.lane) !== pool) continue;
    sums.add(record.lane, 0, record);
  }
  return sums.of(lane, 0);
}
