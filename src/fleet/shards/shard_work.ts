/**
 * The shards that a partition works on: each is a run of its engine under the name of the shard, so that the next owner continues it.
 *
 *   waiting -> claimed (at most two a worker, in addition to those of an adopted partition)
 *     -> running -> done | held | failed       (written to its row once its answers are durable)
 *                -> left                       (the partition closes: the next owner continues it)
 *
 * Every second it looks for shards and notes the progress of those at work. Every ten seconds it removes up to 100 shards whose answers were taken,
 * and once a day the inputs of runs that do not exist.
 */
import type { Clock, Timer } from "../../clock.ts";
import type { OpenedEngine } from "../../engine/engine.ts";
import type { CapTerms } from "../../engine/files/cap_terms.ts";
import type { Summary } from "../../engine/items/progress.ts";
import type { Run } from "../../engine/runs/run.ts";
import type { EngineRunOptions } from "../../engine/runs/run_options.ts";
import { messageOf, PerigeeError } from "../../errors.ts";
import { nanoOf, usdOfNano } from "../../price/nano.ts";
import type { Objects } from "../../store/objects/objects.ts";
import { capNameOf } from "./run_rows.ts";
import { readShard, removeShardInput, sweepInputs } from "./shard_input.ts";
import type { ClaimedShard, ShardEnd, ShardId, ShardRows } from "./shard_rows.ts";

/** What the work on a partition's shards needs. */
export interface ShardWorkOptions {
  readonly clock: Clock;
  readonly rows: ShardRows;
  readonly opened: Pick<OpenedEngine, "engine" | "core">;
  readonly objects: Objects;
  /** Of the worker. */
  readonly seats: ShardSeats;
  readonly onNotice: (message: string) => void;
}

const TURN_MS = 1_000;
const CLEAN_TURNS = 10;
/** Once a day, the first time ten minutes after it began. */
const SWEEP_TURNS = 86_400;
const SWEEP_TURN = 600;
const SEATS = 2;
/** Errors that end the engine too, or pass: this or the next owner of the partition continues the shard. */
const PASSING: readonly string[] = ["closed", "interrupted", "store_failed", "disk_full"];

/** How many shards a worker may still claim, over all its partitions. */
export class ShardSeats {
  #free = SEATS;

  /** Takes all free seats and returns how many. */
  take(): number {
    const taken = Math.max(0, this.#free);
    this.#free -= taken;
    return taken;
  }

  /** Returns seats. Below 0 it takes them, for shards of an adopted partition: no seat is free until those have ended. */
  give(count: number): void {
    this.#free += count;
  }
}

interface ShardAtWork {
  /** As last read: the cap of its run may change. */
  shard: ClaimedShard;
  run?: Run;
  /** The progress that was noted last, as JSON. */
  counts: string;
}

export class ShardWork {
  readonly #options: ShardWorkOptions;
  readonly #atWork = new Map<string, ShardAtWork>();
  #turns = 0;
  #timer: Timer | undefined;
  #isPaused = false;
  #isStopped = false;

  constructor(options: ShardWorkOptions) {
    this.#options = options;
  }

  /** Begins with the shards that the partition has. */
  start(): void {
    void this.#turn();
  }

  /** Claims nothing more. The runs of its shards go on. */
  pause(): void {
    this.#isPaused = true;
  }

  /** Claims nothing more, and leaves its shards to the next owner. The engine waits for their runs to stop. */
  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    for (const { run } of this.#atWork.values()) run?.stop("closed");
  }

  async #turn(): Promise<void> {
    try {
      await this.#note();
      if (!this.#isPaused) await this.#take();
      if (this.#turns % CLEAN_TURNS === 0) await this.#clean();
      if (this.#turns % SWEEP_TURNS === SWEEP_TURN) await this.#sweep();
    } catch (error) {
      if (!this.#isStopped) this.#options.onNotice(`cannot look for shards: ${messageOf(error)}`);
    }
    this.#turns += 1;
    if (!this.#isStopped)
      this.#timer = this.#options.clock.timer(TURN_MS, () => void this.#turn(), { keepsAlive: false });
  }

  async #take(): Promise<void> {
    const { rows, seats } = this.#options;
    const free = seats.take();
    let count = 0;
    try {
      count = free === 0 ? 0 : await rows.claim(free);
    } finally {
      seats.give(free - count);
    }
    const found = await rows.claimed().catch((error: unknown) => {
      seats.give(count); // they are found in the next turn
      throw error;
    });
    const fresh = found.filter((shard) => !this.#atWork.has(nameOf(shard)));
    seats.give(count - fresh.length);
    for (const shard of found) await this.#limit(shard);
    for (const shard of fresh) void this.#work(shard);
  }

  /** The cap of the run of a shard at work may have changed. */
  async #limit(shard: ClaimedShard): Promise<void> {
    const atWork = this.#atWork.get(nameOf(shard));
    if (atWork === undefined || atWork.shard.capNano === shard.capNano) return;
    atWork.shard = shard;
    if (shard.capNano !== null) await this.#options.opened.core.caps.limit(capTerms(shard, shard.capNano));
  }

  /** Never rejects. */
  async #work(shard: ClaimedShard): Promise<void> {
    const { rows, objects, seats, onNotice } = this.#options;
    const name = nameOf(shard);
    const atWork: ShardAtWork = { shard, counts: "" };
    this.#atWork.set(name, atWork);
    try {
      const end = await this.#ended(atWork);
      if (end === undefined) return;
      await rows.end(shard, end);
      if (end.state === "done") await removeShardInput(objects, shard);
    } catch (error) {
      if (!this.#isStopped) onNotice(`shard ${name}: ${messageOf(error)}`);
    } finally {
      this.#atWork.delete(name);
      seats.give(1);
    }
  }

  /** Undefined when it is left to the next owner. */
  async #ended(atWork: ShardAtWork): Promise<ShardEnd | undefined> {
    const { shard } = atWork;
    const output = this.#outputOf(shard);
    try {
      const run = this.#run(shard, output);
      if (run === undefined) return undefined;
      atWork.run = run;
      const summary = await run.finished;
      if (summary.status === "stopped" || summary.status === "detached") return undefined;
      const { billed_usd, ambiguous_usd } = summary.cost;
      const state = summary.status === "completed" ? "done" : "held";
      const spentNano = nanoOf(billed_usd) + nanoOf(ambiguous_usd);
      return { state, output, counts: JSON.stringify(summary satisfies Summary), spentNano };
    } catch (error) {
      if (this.#isStopped || (error instanceof PerigeeError && PASSING.includes(error.code))) throw error;
      const code = error instanceof PerigeeError ? error.code : "internal_error";
      const counts = JSON.stringify({ error: { code, message: messageOf(error) } });
      const { billedUsd = 0, ambiguousUsd = 0 } = atWork.run?.look() ?? {};
      return { state: "failed", output: "", counts, spentNano: nanoOf(billedUsd) + nanoOf(ambiguousUsd) };
    }
  }

  /** Undefined when the partition closes. */
  #run(shard: ClaimedShard, out: string): Run | undefined {
    const { objects, opened } = this.#options;
    if (this.#isStopped) return undefined;
    const { capNano } = shard;
    const given = JSON.parse(shard.options) as EngineRunOptions; // as its client checked it
    return opened.engine.run(readShard(objects, shard), {
      ...given,
      ...{ id: nameOf(shard), out },
      ...(capNano === null ? {} : { cap: capTerms(shard, capNano) }),
      accepted: { wallMs: shard.acceptedWallMs, bootId: undefined, sinceBootMs: 0 },
    });
  }

  async #note(): Promise<void> {
    for (const atWork of [...this.#atWork.values()]) {
      if (atWork.run === undefined) continue;
      const { lanes: _lanes, held: _held, ...progress } = atWork.run.look();
      const counts = JSON.stringify(progress);
      if (counts === atWork.counts) continue;
      atWork.counts = counts;
      await this.#options.rows.note(atWork.shard, counts);
    }
  }

  async #clean(): Promise<void> {
    const { rows, objects, opened } = this.#options;
    const { store, disk } = opened.core.storage;
    for (const shard of await rows.unneeded()) {
      if (this.#isStopped) return;
      const task = await store.taskByName(`id:${nameOf(shard)}`);
      if (task !== undefined) await opened.engine.forget(task.id);
      await disk.remove(this.#outputOf(shard));
      await removeShardInput(objects, shard);
      await rows.forget(shard);
    }
  }

  async #sweep(): Promise<void> {
    const { rows, objects } = this.#options;
    await sweepInputs(objects, (runs) => rows.known(runs));
  }

  #outputOf({ run, index }: ShardId): string {
    return `${this.#options.opened.core.storage.dataDir}/shards/${run}/${index}.jsonl`;
  }
}

function nameOf({ run, index }: ShardId): string {
  return `shard:${run}:${index}`;
}

/** All shards of a run share one cap, in whichever partition they are. */
function capTerms({ run }: ShardId, capNano: number): CapTerms {
  return { name: capNameOf(run), usd: usdOfNano(capNano) };
}
