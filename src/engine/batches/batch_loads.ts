/**
 * What is with batches, by deadline: items and tokens that realtime would have to answer if they were left. Of each lane, and of all
 * that share limits with it: what these had with batches waits for the same requests and tokens a minute.
 *
 * Hot: asked for each item that a lane places, so sums change when items come and go, and nothing is counted anew. A lane has as
 * many sums as its runs have deadlines.
 */
import type { DueLoad, SharedLoad } from "../../queue/due_work.ts";

interface Sum {
  items: number;
  inputTokens: number;
  outputTokens: number;
}

/** Names what the lanes have in common that share limits; a lane that shares none is by itself. */
export type PoolOf = (lane: string) => string;

/** One for an engine. */
export class BatchLoads {
  readonly #poolOf: PoolOf;
  readonly #lanes = new DueSums();
  readonly #pools = new DueSums();

  constructor(poolOf: PoolOf) {
    this.#poolOf = poolOf;
  }

  /** Items join a batch of a lane; they are due by a deadline (monotonic, Infinity for none). */
  add(lane: string, deadlineMs: number, load: DueLoad): void {
    this.#lanes.add(lane, deadlineMs, load);
    this.#pools.add(this.#poolOf(lane), deadlineMs, load);
  }

  /** All of a batch has ended or was left; what was added of it goes. */
  remove(lane: string, deadlineMs: number, load: DueLoad): void {
    this.#lanes.remove(lane, deadlineMs, load);
    this.#pools.remove(this.#poolOf(lane), deadlineMs, load);
  }

  /** What is with batches and due by a deadline. */
  of(lane: string, deadlineMs: number): SharedLoad {
    return { own: this.#lanes.of(lane, deadlineMs), shared: this.#pools.of(this.#poolOf(lane), deadlineMs) };
  }

  /** Each deadline with what is due then; `isShared`: of all lanes that share limits with it. */
  all(lane: string, isShared: boolean): [deadlineMs: number, load: DueLoad][] {
    return isShared ? this.#pools.all(this.#poolOf(lane)) : this.#lanes.all(lane);
  }
}

/** Sums by a name and a deadline. */
class DueSums {
  readonly #names = new Map<string, Map<number, Sum>>();

  add(name: string, deadlineMs: number, load: DueLoad): void {
    const deadlines = this.#names.get(name) ?? new Map<number, Sum>();
    this.#names.set(name, deadlines);
    const sum = deadlines.get(deadlineMs) ?? { items: 0, inputTokens: 0, outputTokens: 0 };
    deadlines.set(deadlineMs, sum);
    sum.items += load.items;
    sum.inputTokens += load.inputTokens;
    sum.outputTokens += load.outputTokens;
  }

  remove(name: string, deadlineMs: number, load: DueLoad): void {
    const deadlines = this.#names.get(name);
    const sum = deadlines?.get(deadlineMs);
    if (deadlines === undefined || sum === undefined) return;
    sum.items -= load.items;
    sum.inputTokens -= load.inputTokens;
    sum.outputTokens -= load.outputTokens;
    if (sum.items > 0) return;
    deadlines.delete(deadlineMs);
    if (deadlines.size === 0) this.#names.delete(name);
  }

  /** Each deadline with what is due then. */
  all(name: string): [deadlineMs: number, load: DueLoad][] {
    return [...(this.#names.get(name) ?? [])];
  }

  /** Of what is due by a deadline. */
  of(name: string, deadlineMs: number): DueLoad {
    const due = { items: 0, inputTokens: 0, outputTokens: 0 };
    for (const [ownMs, sum] of this.#names.get(name) ?? []) {
      if (ownMs > deadlineMs) continue;
      due.items += sum.items;
      due.inputTokens += sum.inputTokens;
      due.outputTokens += sum.outputTokens;
    }
    return due;
  }
}

/**
 * What has joined batches since what waits in its lane was counted, with all that waits for the same limits: it is in that count still,
 * and with batches already. Forecasts count ten times a second, and a lane may pass on fifty thousand items in between. One for an engine.
 */
export class JoiningLoads {
  readonly #countedMs: (lane: string) => number;
  readonly #poolOf: PoolOf;
  readonly #pools = new Map<string, { readonly atMs: number; readonly sums: DueSums }>();

  /** `countedMs`: when what waits in a lane was counted last, the same for all that share limits. */
  constructor(countedMs: (lane: string) => number, poolOf: PoolOf) {
    this.#countedMs = countedMs;
    this.#poolOf = poolOf;
  }

  add(lane: string, deadlineMs: number, load: DueLoad): void {
    this.#since(lane).add("", deadlineMs, load);
  }

  /** Of what is due by a deadline. */
  of(lane: string, deadlineMs: number): DueLoad {
    return this.#since(lane).of("", deadlineMs);
  }

  #since(lane: string): DueSums {
    const atMs = this.#countedMs(lane);
    const pool = this.#poolOf(lane);
    const known = this.#pools.get(pool);
    if (known?.atMs === atMs) return known.sums;
    const sums = new DueSums();
    this.#pools.set(pool, { atMs, sums });
    return sums;
  }
}
