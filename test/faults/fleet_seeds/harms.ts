/**
 * Does a fault to the fleet, and heals it. What was harmed when is kept for the checks.
 */
import { once } from "node:events";
import { closeSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { connectPg, type PgSession } from "../../../src/store/postgres/pg_session.ts";
import type { FaultFleet, Worker } from "./fault_fleet.ts";
import type { FileLoad } from "./file_load.ts";
import type { Fault } from "./plan.ts";

/**
 * A partition whose owner lost it although nothing was done to it, and did not give it back: the machine was too slow for its heartbeats. An owner gives back
 * what it adopted when the worker that a fault took it from, or a new one, has none.
 */
export interface Lapse {
  readonly kind: "lapse";
}

/** A fault that happened. */
export interface Harm {
  readonly fault: Fault | Lapse;
  readonly atMs: number;
  /** Infinity while it lasts. */
  healedMs: number;
  /** The worker that it was done to, as in the ledger; undefined for one of the database, the client or objects. */
  readonly process: string | undefined;
  /** The partitions of that worker then; all where the database is harmed. */
  readonly parts: readonly number[];
}

const OF_DATABASE: readonly Fault["kind"][] = [
  "restart",
  "crash",
  "backend",
  "sessions",
  "full",
  "deadlocks",
];

export function isOfDatabase({ kind }: Fault | Lapse): boolean {
  return kind !== "lapse" && OF_DATABASE.includes(kind);
}

export interface HarmListeners {
  readonly onProblem: (problem: string) => void;
  /** As it happens, for people. */
  readonly onEvent: (event: string) => void;
}

/** As long as a lease, and a sample. */
const LAPSE_MS = 7_000;
/** As often as a supervisor tries within some minutes. */
const STARTS_MAX = 60;

type Heal = () => Promise<void> | void;

export class Harms {
  readonly all: Harm[] = [];
  readonly #fleet: FaultFleet;
  readonly #client: FileLoad;
  readonly #onProblem: (problem: string) => void;
  readonly #onEvent: (event: string) => void;
  #isDown = false;
  /** How much each worker had said when the seed began. */
  readonly #saidBefore: ReadonlyMap<string, number>;
  /** The last reading, also while the database is away. */
  #owners: ReadonlyMap<number, string> = new Map();

  constructor(fleet: FaultFleet, client: FileLoad, { onProblem, onEvent }: HarmListeners) {
    this.#onEvent = onEvent;
    this.#fleet = fleet;
    this.#client = client;
    this.#onProblem = onProblem;
    this.#saidBefore = new Map(fleet.workers.map(({ process, stderr }) => [process, stderr().length]));
  }

  /** Drops the lapses that were none: the owner says that it gave the partition back. Its words arrive later than the rows change. */
  dropGivenBack(): void {
    for (const { process, stderr } of this.#fleet.workers) {
      const said = stderr().slice(this.#saidBefore.get(process) ?? 0);
      const lost = new Set<string>();
      for (const [, part = "", how] of said.matchAll(/partition (\d+) is given (up|back)/g)) {
        if (how === "up") lost.add(part);
        if (how === "up" || lost.delete(part)) continue; // one that it lost, it closes, too
        const at = this.all.findIndex(
          (harm) => harm.fault.kind === "lapse" && harm.process === process && harm.parts[0] === Number(part),
        );
        if (at >= 0) this.all.splice(at, 1);
      }
    }
  }

  /** Notes who owns what, and the lapses since the last time. */
  noteOwners(owners: ReadonlyMap<number, string>): void {
    const nowMs = performance.now();
    for (const [part, owner] of this.#owners) {
      const process = this.#fleet.workers.find(({ id }) => id === owner)?.process;
      if (process === undefined || owners.get(part) === owner || this.#explains(process, nowMs)) continue;
      this.all.push({
        fault: { kind: "lapse" },
        atMs: nowMs - LAPSE_MS,
        healedMs: nowMs,
        process,
        parts: [part],
      });
    }
    this.#owners = owners;
  }

  /** Whether a fault of a worker or of the database is the reason of what happens now. */
  #explains(process: string, nowMs: number): boolean {
    return this.all.some(
      (harm) =>
        harm.fault.kind !== "lapse" &&
        (isOfDatabase(harm.fault) || harm.process === process) &&
        harm.healedMs + LAPSE_MS > nowMs,
    );
  }

  isHarmed(place: number): boolean {
    return this.all.some(
      ({ fault, healedMs }) =>
        healedMs > performance.now() &&
        "worker" in fault &&
        fault.worker === place &&
        fault.kind !== "skew" &&
        fault.kind !== "twin",
    );
  }

  /** Resolves when it is healed. Never rejects. */
  async happen(fault: Fault): Promise<void> {
    const worker = "worker" in fault ? this.#fleet.workers[fault.worker] : undefined;
    const parts = [...this.#owners].flatMap(([part, owner]) =>
      isOfDatabase(fault) || owner === worker?.id ? [part] : [],
    );
    const harm: Harm = {
      fault,
      atMs: performance.now(),
      healedMs: Number.POSITIVE_INFINITY,
      process: worker?.process,
      parts,
    };
    this.all.push(harm);
    this.#onEvent(`begins: ${JSON.stringify(fault)}`);
    try {
      const heal = await this.#begin(fault, worker);
      await new Promise((resolve) => setTimeout(resolve, fault.forMs));
      await heal();
    } catch (error) {
      this.#onProblem(`${fault.kind}: ${error instanceof Error ? error.message : String(error)}`);
    }
    harm.healedMs = performance.now();
    this.#onEvent(`healed: ${fault.kind}`);
  }

  async #begin(fault: Fault, worker: Worker | undefined): Promise<Heal> {
    switch (fault.kind) {
      case "restart":
      case "crash":
        return this.#databaseDown(fault.kind === "restart" ? "SIGINT" : "SIGQUIT");
      case "backend":
        return this.#backendKilled();
      case "sessions":
        return this.#sessionsTaken();
      case "full":
        return this.#diskFilled();
      case "deadlocks":
        return this.#rivals();
      case "client":
        this.#client.kill();
        return () => this.#client.again();
      case "client_database":
        this.#client.proxy.mode = fault.mode;
        return () => {
          this.#client.proxy.mode = "open";
        };
      case "bucket":
        this.#fleet.bucket.mode = fault.mode;
        return () => {
          this.#fleet.bucket.mode = "well";
        };
      default:
        return this.#toWorker(fault, worker as Worker); // each place has one
    }
  }

  async #toWorker(fault: Fault & { readonly worker: number }, worker: Worker): Promise<Heal> {
    const { child } = worker;
    switch (fault.kind) {
      case "kill":
        child.kill("SIGKILL");
        return () => this.#startedAgain(worker);
      case "term":
        child.kill("SIGTERM");
        return async () => {
          if (this.#fleet.isAlive(worker)) await once(child, "exit");
          if (child.exitCode !== 0)
            this.#onProblem(
              `${worker.name} ended with ${child.exitCode} after SIGTERM: ${worker.stderr().slice(-300)}`,
            );
          await this.#startedAgain(worker);
        };
      case "stop":
        child.kill("SIGSTOP");
        return () => void child.kill("SIGCONT");
      case "twin": {
        const twin = await this.#started(worker.place, true);
        return async () => {
          twin.child.kill(fault.forMs % 2 === 0 ? "SIGKILL" : "SIGTERM");
          await once(twin.child, "exit");
          twin.database.close();
          twin.private.close();
        };
      }
      case "skew":
        writeFileSync(worker.skewFile, String(fault.skewMs));
        return () => writeFileSync(worker.skewFile, "0");
      default: {
        const proxies = [
          ...(fault.kind === "private" ? [] : [worker.database]),
          ...(fault.kind === "database" ? [] : [worker.private]),
        ];
        const mode =
          fault.kind === "database" || fault.kind === "private" || fault.kind === "apart"
            ? fault.mode
            : "open";
        for (const proxy of proxies) proxy.mode = mode;
        return () => {
          for (const proxy of proxies) proxy.mode = "open";
        };
      }
    }
  }

  async #startedAgain(dead: Worker): Promise<void> {
    if (this.#fleet.workers[dead.place] !== dead) return; // another fault killed it, and has started it again
    if (this.#fleet.isAlive(dead)) await once(dead.child, "exit");
    dead.database.close();
    dead.private.close();
    await this.#started(dead.place, false);
  }

  /** As a supervisor would: while the database is away, a worker does not start. */
  async #started(place: number, isTwin: boolean): Promise<Worker> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#fleet.start(place, isTwin);
      } catch (error) {
        if (tries === STARTS_MAX || this.#fleet.isClosed) throw error;
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
    }
  }

  /** While it is down, nothing more is done to it. */
  async #databaseDown(signal: "SIGINT" | "SIGQUIT"): Promise<Heal> {
    if (this.#isDown) return () => undefined;
    this.#isDown = true;
    await this.#fleet.postgres.down(signal);
    return async () => {
      await this.#fleet.postgres.up();
      this.#isDown = false;
    };
  }

  /** PostgreSQL ends all sessions and recovers when one of its processes dies. */
  async #backendKilled(): Promise<Heal> {
    const [row] = await this.#fleet.session.rows<{ readonly pid: number }>(
      "SELECT pid FROM pg_stat_activity WHERE application_name = 'perigee' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1",
    );
    if (row !== undefined) process.kill(row.pid, "SIGKILL");
    return () => undefined;
  }

  /** Takes every session of the server, and breaks off half of the workers' sessions, which then find none. */
  async #sessionsTaken(): Promise<Heal> {
    const rivals: PgSession[] = [];
    let isOver = false;
    const taking = (async (): Promise<void> => {
      while (!isOver) {
        try {
          rivals.push(await connectPg(this.#fleet.session.url));
        } catch {
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }
    })();
    await new Promise((resolve) => setTimeout(resolve, 300));
    await rivals[0]
      ?.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'perigee' AND pid <> pg_backend_pid() AND query LIKE '%perigee\\_%' AND random() < 0.5`,
      )
      .catch(() => undefined);
    return async () => {
      isOver = true;
      await taking;
      for (const rival of rivals) rival.end();
    };
  }

  #diskFilled(): Heal {
    const { disk } = this.#fleet;
    if (disk === undefined) return () => undefined;
    const ballast = join(disk, "ballast");
    const file = openSync(ballast, "w");
    for (let bytes = 1_048_576; bytes >= 4_096; ) {
      try {
        if (writeSync(file, new Uint8Array(bytes)) < bytes) bytes /= 2;
      } catch {
        bytes /= 2;
      }
    }
    closeSync(file);
    return () => rmSync(ballast);
  }

  /** Two sessions that lock what the workers lock, in opposite orders. */
  #rivals(): Heal {
    const tables = ["perigee_runs", "perigee_shards", "perigee_partitions", "perigee_limits"];
    let isOver = false;
    const lockAll = async (order: readonly string[]): Promise<void> => {
      while (!isOver) {
        let rival: PgSession | undefined;
        try {
          rival = await connectPg(this.#fleet.session.url);
          while (!isOver) {
            await rival.script("BEGIN");
            for (const table of order)
              await rival.script(`SELECT FROM ${table} FOR UPDATE; SELECT pg_sleep(0.06)`);
            await rival.script("ROLLBACK");
            await new Promise((resolve) => setTimeout(resolve, 100));
          }
        } catch {
          await new Promise((resolve) => setTimeout(resolve, 50)); // a deadlock, or the server is away
        }
        rival?.end();
      }
    };
    const both = [lockAll(tables), lockAll(tables.toReversed())];
    return async () => {
      isOver = true;
      await Promise.all(both);
    };
  }
}
