/**
 * The rows of a fleet in a modelled database, behind the statements of `src/fleet`: each is recognized by a part of its text, has its cost and its
 * locks, and changes the rows when it is its turn. A statement that is not recognized costs a round trip and finds nothing.
 */
import { LEASE_MS } from "../../src/store/postgres/pg_partition.ts";
import type { PgQuery, PgResult, PgSession, PgValue } from "../../src/store/postgres/pg_session.ts";
import * as costs from "./costs.ts";
import type { ModelledServer, ModelledSession, ModelledStatement } from "./modelled_server.ts";

interface WorkerRow {
  readonly id: string;
  readonly name: string;
  readonly address: string;
  readonly role: string;
  readonly version: string;
  readonly startedWallMs: number;
  isLeaving: boolean;
  untilMs: number;
}

interface PartitionRow {
  readonly part: number;
  owner: string | undefined;
  epoch: number;
  commits: number;
  untilMs: number;
}

interface ShardRow {
  readonly run: string;
  readonly index: number;
  readonly lines: number;
  readonly createdMs: number;
  state: "waiting" | "claimed" | "done";
  part: number | undefined;
}

interface Planned extends ModelledStatement {
  readonly kind: string;
  readonly effect: () => PgResult;
}

const NOTHING: PgResult = { rows: [], count: 0 };

export class ModelledRows {
  readonly server: ModelledServer;
  readonly #workers = new Map<string, WorkerRow>();
  readonly #partitions = new Map<number, PartitionRow>();
  readonly #limits = new Map<string, string>();
  /** Shards that wait, in the order of their making: all have the same sla. */
  readonly #waiting: ShardRow[] = [];
  /** Claimed ones, by partition. */
  readonly #claimed = new Map<number, ShardRow[]>();
  /** How often a partition was taken from an owner that had not released it. */
  lostLeases = 0;
  endedShards = 0;

  constructor(server: ModelledServer) {
    this.server = server;
  }

  get waitingShards(): number {
    return this.#waiting.length;
  }

  /** Bytes of the largest state of a quota. */
  get largestState(): number {
    return Math.max(0, ...[...this.#limits.values()].map((state) => state.length));
  }

  readonly #lines = new Map<string, number>();

  /** How many lines a shard has, by the name of its run. */
  readonly linesOf = (name: string): number => this.#lines.get(name) ?? 0;

  /** As a transaction of the owner does; false when there is another one. */
  renewLease(part: number, epoch: number): boolean {
    const row = this.#partitions.get(part);
    if (row?.epoch !== epoch) return false;
    row.untilMs = this.server.time.nowMs + LEASE_MS;
    return true;
  }

  addShard(run: string, index: number, lines: number): void {
    const createdMs = this.server.time.nowMs;
    this.#lines.set(`shard:${run}:${index}`, lines);
    this.#waiting.push({ run, index, lines, createdMs, state: "waiting", part: undefined });
  }

  /** A session as `pg_session.ts` makes them. */
  session(): PgSession {
    const session = this.server.connect();
    return {
      query: this.#queryOn(session),
      script: () => Promise.resolve(),
      commit: () => Promise.resolve(),
      end: () => undefined,
    };
  }

  #queryOn(session: ModelledSession): PgQuery {
    const { time } = this.server;
    return (sql, ...values) =>
      new Promise((resolve) => {
        if (sql === "COMMIT") {
          session.commit("draws", costs.COMMIT, () => time.settle(resolve, NOTHING));
          return;
        }
        if (sql === "BEGIN") session.begin();
        const { kind, effect, ...statement } = this.#planned(sql, values);
        let result = NOTHING;
        session.run(
          kind,
          statement,
          () => {
            result = effect();
          },
          // What the caller computes before its next statement, with the rows locked.
          () =>
            time.after(kind === "draws" ? this.#callerMs(sql, result) : 0, () =>
              time.settle(resolve, result),
            ),
        );
      });
  }

  #callerMs(sql: string, { rows }: PgResult): number {
    if (!sql.includes("FOR UPDATE")) return 0;
    const states = rows as readonly { readonly state: string }[]; // as made below
    return costs.drawnByCaller(sum(states.map(({ state }) => state.length)));
  }

  #planned(sql: string, values: readonly PgValue[]): Planned {
    for (const [part, plan] of this.#plans) if (sql.includes(part)) return plan(values);
    return { kind: "other", cpuMs: costs.ROUND_TRIP, effect: () => NOTHING };
  }

  readonly #plans: readonly (readonly [part: string, plan: (values: readonly PgValue[]) => Planned])[] = [
    ["INSERT INTO perigee_workers", (values) => this.#beat(values)],
    ["FROM perigee_workers WHERE lease_until", () => this.#livingWorkers()],
    ["FROM perigee_partitions WHERE in_fleet", () => this.#allPartitions()],
    ["SELECT coalesce(max(part), 0) + 1", () => this.#makePartition()],
    ["SET epoch = epoch + 1", (values) => this.#take(values)],
    ["SET commits = commits + 1", (values) => this.#renew(values)],
    ["SELECT epoch FROM", ([part, owner]) => this.#epochOf(Number(part), String(owner))],
    ["SELECT commits FROM", ([part, epoch]) => this.#commitsOf(Number(part), Number(epoch))],
    ["SELECT keys_version", () => ({ kind: "keys", cpuMs: costs.KEYS_VERSION, effect: () => NOTHING })],
    ["picked AS", (values) => this.#claim(values)],
    ["SELECT s.run, s.index, s.first_line", (values) => this.#readClaimed(values)],
    ["UPDATE perigee_shards SET counts", (values) => this.#noted(values)],
    ["ended AS", (values) => this.#ended(values)],
    ["INSERT INTO perigee_limits", ([quotas]) => this.#addLimits(quotas as readonly string[])],
    ["FROM perigee_limits WHERE quota", ([quotas]) => this.#readLimits(quotas as readonly string[])],
    [
      "UPDATE perigee_limits",
      ([quotas, states]) => this.#writeLimits(quotas as readonly string[], states as readonly string[]),
    ],
    ["BEGIN", () => ({ kind: "draws", cpuMs: costs.ROUND_TRIP, effect: () => NOTHING })],
  ];

  get #nowMs(): number {
    return this.server.time.nowMs;
  }

  #beat([id, name, address, role, version, isLeaving, leaseMs]: readonly PgValue[]): Planned {
    return {
      ...{ kind: "heartbeats", cpuMs: costs.HEARTBEAT, isWrite: true },
      effect: () => {
        const nowMs = this.#nowMs;
        const known = this.#workers.get(String(id));
        const row: WorkerRow = known ?? {
          ...{ id: String(id), name: String(name), address: String(address), role: String(role) },
          ...{ version: String(version), startedWallMs: nowMs, isLeaving: false, untilMs: nowMs },
        };
        row.isLeaving = isLeaving === true;
        row.untilMs = nowMs + Number(leaseMs);
        this.#workers.set(row.id, row);
        return { rows: [{ wallMs: nowMs }], count: 1 };
      },
    };
  }

  #livingWorkers(): Planned {
    return {
      ...{ kind: "fleet reads", cpuMs: costs.readOf(this.#workers.size) },
      effect: () => {
        const rows = [...this.#workers.values()].filter(({ untilMs }) => untilMs > this.#nowMs);
        return { rows: rows.map((row) => ({ ...row })), count: rows.length };
      },
    };
  }

  #allPartitions(): Planned {
    return {
      ...{ kind: "fleet reads", cpuMs: costs.readOf(this.#partitions.size) },
      effect: () => {
        const rows = [...this.#partitions.values()].map(({ part, owner, untilMs }) => {
          const leftMs = untilMs - this.#nowMs;
          return leftMs > 0 ? { part, owner: owner ?? null, leftMs } : { part, owner: null, leftMs: null };
        });
        return { rows, count: rows.length };
      },
    };
  }

  #makePartition(): Planned {
    return {
      ...{ kind: "placement", cpuMs: costs.HEARTBEAT, isWrite: true },
      effect: () => {
        const part = this.#partitions.size + 1;
        const epoch = 0;
        this.#partitions.set(part, {
          part,
          owner: undefined,
          epoch,
          commits: 0,
          untilMs: Number.NEGATIVE_INFINITY,
        });
        return { rows: [{ part }], count: 1 };
      },
    };
  }

  #take([part, owner]: readonly PgValue[]): Planned {
    return {
      ...{ kind: "placement", cpuMs: costs.PARTITION_TAKEN, isWrite: true, locks: [`partition ${part}`] },
      effect: () => {
        const row = this.#partitions.get(Number(part));
        if (row === undefined || row.untilMs >= this.#nowMs) return NOTHING;
        if (row.owner !== undefined) this.lostLeases += 1;
        row.epoch += 1;
        row.owner = String(owner);
        row.untilMs = this.#nowMs + LEASE_MS;
        return { rows: [{ epoch: row.epoch, commits: row.commits }], count: 1 };
      },
    };
  }

  #renew([part, epoch, commits]: readonly PgValue[]): Planned {
    return {
      ...{ kind: "leases", cpuMs: costs.LEASE_RENEWED, isWrite: true, locks: [`partition ${part}`] },
      effect: () => {
        const row = this.#partitions.get(Number(part));
        if (row === undefined || row.epoch !== epoch || row.commits !== commits) return NOTHING;
        row.commits += 1;
        row.untilMs = this.#nowMs + LEASE_MS;
        return { rows: [], count: 1 };
      },
    };
  }

  #epochOf(part: number, owner: string): Planned {
    return {
      ...{ kind: "placement", cpuMs: costs.ROUND_TRIP },
      effect: () => {
        const row = this.#partitions.get(part);
        return row?.owner === owner ? { rows: [{ epoch: row.epoch }], count: 1 } : NOTHING;
      },
    };
  }

  #commitsOf(part: number, epoch: number): Planned {
    return {
      ...{ kind: "placement", cpuMs: costs.ROUND_TRIP },
      effect: () => {
        const row = this.#partitions.get(part);
        return row?.epoch === epoch ? { rows: [{ commits: row.commits }], count: 1 } : NOTHING;
      },
    };
  }

  #isFenced(part: PgValue | undefined, epoch: PgValue | undefined): boolean {
    return this.#partitions.get(Number(part))?.epoch === epoch;
  }

  #claim([part, epoch, countMax]: readonly PgValue[]): Planned {
    const isWrite = this.#waiting.length > 0;
    return {
      ...{ kind: "shards", cpuMs: costs.SHARD.look, isWrite, locks: [`partition ${part}`] },
      effect: () => {
        if (!this.#isFenced(part, epoch)) return NOTHING;
        const claimed = this.#waiting.splice(0, Number(countMax));
        for (const shard of claimed) {
          shard.state = "claimed";
          shard.part = Number(part);
          this.#claimedOf(Number(part)).push(shard);
        }
        return { rows: [], count: claimed.length };
      },
    };
  }

  #claimedOf(part: number): ShardRow[] {
    const known = this.#claimed.get(part) ?? [];
    this.#claimed.set(part, known);
    return known;
  }

  #readClaimed([part, epoch]: readonly PgValue[]): Planned {
    return {
      ...{ kind: "shards", cpuMs: costs.SHARD.read, locks: [`partition ${part}`] },
      effect: () => {
        if (!this.#isFenced(part, epoch)) return NOTHING;
        const rows = this.#claimedOf(Number(part)).map(({ run, index, lines, createdMs }) => ({
          ...{ run, index, lines, firstLine: 1, pieces: 1, options: "{}", isCapped: false },
          acceptedWallMs: createdMs,
        }));
        return { rows, count: rows.length };
      },
    };
  }

  #noted([part]: readonly PgValue[]): Planned {
    const locks = [`partition ${part}`];
    return { kind: "shards", cpuMs: costs.SHARD.noted, isWrite: true, locks, effect: () => NOTHING };
  }

  #ended([part, epoch, run, index]: readonly PgValue[]): Planned {
    return {
      ...{
        kind: "shards",
        cpuMs: costs.SHARD.ended,
        isWrite: true,
        locks: [`partition ${part}`, `run ${run}`],
      },
      effect: () => {
        if (!this.#isFenced(part, epoch)) return NOTHING;
        const all = this.#claimedOf(Number(part));
        const at = all.findIndex((shard) => shard.run === run && shard.index === index);
        if (at >= 0) this.endedShards += all.splice(at, 1).length;
        return NOTHING;
      },
    };
  }

  #addLimits(quotas: readonly string[]): Planned {
    return {
      ...{ kind: "draws", cpuMs: costs.ROUND_TRIP * 3, isWrite: true },
      effect: () => {
        for (const quota of quotas) if (!this.#limits.has(quota)) this.#limits.set(quota, "");
        return NOTHING;
      },
    };
  }

  #readLimits(quotas: readonly string[]): Planned {
    const inOrder = [...quotas].sort();
    return {
      kind: "draws",
      cpuMs: costs.limitsRead(sum(inOrder.map((quota) => this.#limits.get(quota)?.length ?? 0))),
      locks: inOrder.map((quota) => `quota ${quota}`),
      effect: () => {
        const now_ms = Math.floor(this.#nowMs);
        const rows = inOrder.map((quota) => ({ quota, state: this.#limits.get(quota) ?? "", now_ms }));
        return { rows, count: rows.length };
      },
    };
  }

  #writeLimits(quotas: readonly string[], states: readonly string[]): Planned {
    return {
      kind: "draws",
      ...{ cpuMs: costs.limitsWritten(sum(states.map((state) => state.length))), isWrite: true },
      effect: () => {
        for (const [index, quota] of quotas.entries()) this.#limits.set(quota, states[index] ?? "");
        return NOTHING;
      },
    };
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
