/**
 * What is known of the time of batches and of realtime beside them, as queue/batch_choice.ts decides by it.
 *
 *   what waits, as it was counted up to 100 ms ago - what has joined batches since + what is with batches -> drain
 */
import { type BatchOutlook, cancelMsOf } from "../../queue/batch_choice.ts";
import type { DueLoad } from "../../queue/due_work.ts";
import type { LatencyPrior } from "../../queue/lane_priors.ts";
import type { ItemCall } from "../items/item_call.ts";
import { type BatchLoads, JoiningLoads } from "./batch_loads.ts";

const NOTHING: DueLoad = { items: 0, inputTokens: 0, outputTokens: 0 };

/** What outlooks ask of lanes and of what was learnt. */
export interface OutlookServices {
  /** What batches of a model take, as learnt or known. */
  latencyOf(model: string): LatencyPrior;
  /** What realtime needs for what waits in a lane and is due by a deadline, and for what is `beside` it; milliseconds. */
  drainMs(lane: string, deadlineMs: number, beside: DueLoad): number;
  /** When what waits in a lane was counted, as `drainMs` knows it; monotonic. */
  countedMs(lane: string): number;
  realtimeP99Ms(model: string): number | undefined;
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
    this.#joining = new JoiningLoads((lane) => services.countedMs(lane));
  }

  /** Of a batch for a model, with one more item or without. `coming`: what the lane will have beside what it has. */
  of(
    model: string,
    lane: string,
    deadlineMs: number,
    items: number,
    coming: DueLoad = NOTHING,
  ): BatchOutlook {
    const latency = this.#services.latencyOf(model);
    return {
      deadlineMs,
      drainMs: this.#drainMs(lane, deadlineMs, sumOf(this.#loads.of(lane, deadlineMs), coming)),
      realtimeP99Ms: this.#services.realtimeP99Ms(model),
      latency,
      cancelMs: cancelMsOf(latency),
      items,
    };
  }

  /** What realtime needs for what waits in a lane and is due by a deadline, without what is with batches; milliseconds. */
  waitingMs(lane: string, deadlineMs: number, coming: DueLoad = NOTHING): number {
    return this.#drainMs(lane, deadlineMs, coming);
  }

  /** An item that waited is with a batch from now on. */
  joins({ lane, owner, load }: ItemCall): void {
    this.#joining.add(lane.key, owner.settings.deadlineMs, { items: 1, ...load });
  }

  #drainMs(lane: string, deadlineMs: number, beside: DueLoad): number {
    const joined = this.#joining.of(lane, deadlineMs);
    const load = {
      items: beside.items - joined.items,
      inputTokens: beside.inputTokens - joined.inputTokens,
      outputTokens: beside.outputTokens - joined.outputTokens,
    };
    return this.#services.drainMs(lane, deadlineMs, load);
  }
}

function sumOf(left: DueLoad, right: DueLoad): DueLoad {
  return {
    items: left.items + right.items,
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
  };
}
