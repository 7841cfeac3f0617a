/**
 * A worker over a modelled database: this code's heartbeat, placement, partitions, shards and draws, with modelled engines.
 *
 * Its sessions are those of a worker: one for rows of the fleet, one for draws, and one for each partition.
 */
import type { OpenedEngine } from "../../src/engine/engine.ts";
import type { PerigeeError } from "../../src/errors.ts";
import { FleetDirectory } from "../../src/fleet/directory.ts";
import { Membership } from "../../src/fleet/membership.ts";
import { type OpenedPartition, OwnedPartitions } from "../../src/fleet/owned_partitions.ts";
import { ShardRows } from "../../src/fleet/shards/shard_rows.ts";
import { ShardSeats, ShardWork } from "../../src/fleet/shards/shard_work.ts";
import { PgLimitPool } from "../../src/fleet/shared/pg_limit_pool.ts";
import { readFleet, WorkerRows } from "../../src/fleet/worker_rows.ts";
import { KeyedMutex } from "../../src/keyed_mutex.ts";
import type { LimitPool } from "../../src/limits/shared/limit_pool.ts";
import type { Objects } from "../../src/store/objects/objects.ts";
import { PgClock } from "../../src/store/postgres/pg_clock.ts";
import { PgPartition } from "../../src/store/postgres/pg_partition.ts";
import type { PgQuery } from "../../src/store/postgres/pg_session.ts";
import { type EngineTerms, ModelledEngine } from "./modelled_engine.ts";
import type { ModelledRows } from "./modelled_rows.ts";
import type { Tallies } from "./tallies.ts";

export interface WorkerTerms extends EngineTerms {
  readonly rows: ModelledRows;
  readonly tallies: Tallies;
  readonly slaMs: number;
  readonly onNotice: (message: string) => void;
}

const KEYS_MS = 500;
const OPENING_MS = 500;
const BEAT_MS = 1_000;

export class ModelledWorker {
  readonly engines: Map<number, ModelledEngine> = new Map();
  readonly #terms: WorkerTerms;
  readonly #id: string;
  readonly #query: PgQuery;
  readonly #pool: LimitPool;
  readonly #seats = new ShardSeats();
  readonly #membership: Membership;

  constructor(number: number, terms: WorkerTerms) {
    this.#terms = terms;
    const { rows, tallies, onNotice } = terms;
    const { clock } = rows.server.time;
    this.#id = `worker-${number}/${number.toString(16).padStart(8, "0")}`;
    this.#query = inTurn(rows.session().query);
    const pool = new PgLimitPool("", () => Promise.resolve(rows.session()));
    this.#pool = {
      draw: async (asks) => {
        const startedMs = clock.nowMs();
        const grants = await pool.draw(asks);
        tallies.drawMs.add(clock.nowMs() - startedMs);
        return grants;
      },
    };
    const owned = new OwnedPartitions({
      ...{ clock, onNotice, open: (part) => this.#open(part), onChange: () => this.#membership.soon() },
    });
    const entry = { id: this.#id, name: `worker-${number}`, address: `http://10.0.0.1:${number}` };
    const directory = new FleetDirectory(clock, () => readFleet(this.#query));
    const described = { ...entry, role: "all", version: "0.1.0" } as const;
    const workerRows = new CountedRows(this.#query, described, new PgClock(clock));
    workerRows.onBeat = (lagMs) => tallies.beatLagMs.add(lagMs);
    workerRows.nowMs = () => clock.nowMs();
    this.#membership = new Membership({
      ...{ clock, rows: workerRows, directory, owned, onNotice },
      role: "all",
    });
  }

  start(): void {
    void this.#membership.enter();
    this.#lookAtKeys();
  }

  #lookAtKeys(): void {
    const { time } = this.#terms.rows.server;
    void this.#query("SELECT keys_version FROM perigee_fleet").then(() =>
      time.clock.timer(KEYS_MS, () => this.#lookAtKeys()),
    );
  }

  async #open(part: number): Promise<OpenedPartition> {
    const { rows, tallies, slaMs } = this.#terms;
    const { time } = rows.server;
    const partition = new PgPartition(part, this.#id);
    await partition.take(this.#query);
    await time.clock.sleep(OPENING_MS);
    let fail: (error: PerigeeError) => void = () => undefined;
    const failed = new Promise<PerigeeError>((resolve) => {
      fail = resolve;
    });
    const place = { time, session: rows.server.connect(), pool: this.#pool, part, tallies };
    const engine = new ModelledEngine(
      {
        ...place,
        renew: () => rows.renewLease(part, partition.epoch),
        onLost: () => time.settle(fail, new Error("the partition was taken over") as PerigeeError), // only its message is read
      },
      this.#terms,
    );
    this.engines.set(part, engine);
    const shardRows = await ShardRows.open(this.#query, part, this.#id);
    const work = new ShardWork({
      ...{
        clock: time.clock,
        rows: shardRows,
        seats: this.#seats,
        objects: NO_OBJECTS,
        onNotice: this.#terms.onNotice,
      },
      opened: openedEngine((lines) => engine.run(lines, slaMs), rows.linesOf),
    });
    work.start();
    const close = async (): Promise<void> => {
      work.stop();
      engine.close();
      this.engines.delete(part);
    };
    const drained = async (): Promise<void> => work.pause();
    return {
      service: { handler: () => undefined, failed, close },
      handover: { drained, release: () => undefined },
      store: { close },
      closeFiles: close,
    };
  }
}

/** Says how late each heartbeat ended. */
class CountedRows extends WorkerRows {
  onBeat: (lagMs: number) => void = () => undefined;
  nowMs: () => number = () => 0;
  #beatenMs: number | undefined;

  override async beat(isLeaving: boolean): ReturnType<WorkerRows["beat"]> {
    const reading = await super.beat(isLeaving);
    const nowMs = this.nowMs();
    if (this.#beatenMs !== undefined) this.onBeat(Math.max(0, nowMs - this.#beatenMs - BEAT_MS));
    this.#beatenMs = nowMs;
    return reading;
  }
}

/** One statement after another, as the session of a worker does. */
function inTurn(query: PgQuery): PgQuery {
  const turns = new KeyedMutex();
  return (sql, ...values) => turns.take("", () => query(sql, ...values));
}

const NO_OBJECTS: Objects = {
  remove: () => Promise.resolve(),
} as unknown as Objects; // nothing else is used

/** The members of an engine that `ShardWork` uses. `linesOf`: of a shard by its name. */
function openedEngine(
  run: (lines: number) => ReturnType<ModelledEngine["run"]>,
  linesOf: (name: string) => number,
): Pick<OpenedEngine, "engine" | "core"> {
  return {
    engine: { run: (_input: unknown, { id }: { id: string }) => run(linesOf(id)) },
    core: { storage: { dataDir: "/data" } },
  } as unknown as Pick<OpenedEngine, "engine" | "core">; // nothing else is used
}
