/**
 * What is with batches, by lane and deadline: items and tokens that realtime would have to answer if they were left.
 *
 * Hot: asked for each item that a lane places, so sums change when items come and go, and nothing is counted anew. A lane has as
 * many sums as its runs have deadlines.
 */
import type { DueLoad } from "../../queue/due_work.ts";

interface Sum {
  items: number;
  inputTokens: number;
  outputTokens: number;
}

/** One for an engine. */
export class BatchLoads {
  readonly #lanes = new Map<string, Map<number, Sum>>();

  /** Items join a batch of a lane; they are due by a deadline (monotonic, Infinity for none). */
  add(lane: string, deadlineMs: number, load: DueLoad): void {
    const deadlines = this.#lanes.get(lane) ?? new Map<number, Sum>();
    this.#lanes.set(lane, deadlines);
    const sum = deadlines.get(deadlineMs) ?? { items: 0, inputTokens: 0, outputTokens: 0 };
    deadlines.set(deadlineMs, sum);
    sum.items += load.items;
    sum.inputTokens += load.inputTokens;
    sum.outputTokens += load.outputTokens;
  }

  /** All of a batch has ended or was left; what was added of it goes. */
  remove(lane: string, deadlineMs: number, load: DueLoad): void {
    const deadlines = this.#lanes.get(lane);
    const sum = deadlines?.get(deadlineMs);
    if (deadlines === undefined || sum === undefined) return;
    sum.items -= load.items;
    sum.inputTokens -= load.inputTokens;
    sum.outputTokens -= load.outputTokens;
    if (sum.items > 0) return;
    deadlines.delete(deadlineMs);
    if (deadlines.size === 0) this.#lanes.delete(lane);
  }

  /** What is with batches of a lane and due by a deadline. */
  of(lane: string, deadlineMs: number): DueLoad {
    const due = { items: 0, inputTokens: 0, outputTokens: 0 };
    for (const [ownMs, sum] of this.#lanes.get(lane) ?? []) {
      if (ownMs > deadlineMs) continue;
      due.items += sum.items;
      due.inputTokens += sum.inputTokens;
      due.outputTokens += sum.outputTokens;
    }
    return due;
  }
}

/**
 * What has joined batches since what waits in its lane was counted: it is in that count still, and with batches already. Forecasts count
 * ten times a second, and a lane may pass on fifty thousand items in between. One for an engine.
 */
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
