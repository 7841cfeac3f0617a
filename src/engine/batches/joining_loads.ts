/**
 * What has joined batches since what waits in its lane was counted: it is in that count still, and with batches already.
 *
 * Forecasts count ten times a second, and a lane may pass on fifty thousand items in between.
 */
import type { DueLoad } from "../../queue/due_work.ts";
import { BatchLoads } from "./batch_loads.ts";

/** One for an engine. */
export class JoiningLoads {
  readonly #countedMs: (lane: string) => number;
  readonly #lanes = new Map<string, { readonly atMs: number; readonly loads: BatchLoads }>();

  /** `countedMs`: when what waits in a lane was counted last. */
  constructor(countedMs: (lane: string) => number) {
    this.#countedMs = countedMs;
  }

  add(lane: string, deadlineMs: number, load: DueLoad): void {
    this.#since(lane).add(lane, deadlineMs, load);
  }

  /** Of what is due by a deadline. */
  of(lane: string, deadlineMs: number): DueLoad {
    return this.#since(lane).of(lane, deadlineMs);
  }

  #since(lane: string): BatchLoads {
    const atMs = this.#countedMs(lane);
    const known = this.#lanes.get(lane);
    if (known?.atMs === atMs) return known.loads;
    const loads = new BatchLoads();
    this.#lanes.set(lane, { atMs, loads });
    return loads;
  }
}
