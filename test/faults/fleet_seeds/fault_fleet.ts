/**
 * The fleet of a group of seeds: a PostgreSQL, workers that reach it through proxies of their own, a provider with a ledger, and objects.
 *
 * The calls of other workers reach a worker through a second proxy: its address in `perigee_workers` is replaced once it has registered.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { systemClock } from "../../../src/clock.ts";
import { SCOPES } from "../../../src/service/http/caller.ts";
import { PgKeyStore } from "../../../src/store/keys/pg_key_store.ts";
import { createRandom } from "../../../src/testing/random.ts";
import { MAIN } from "../../built.ts";
import { PostgresServer } from "../../postgres_server.ts";
import { urlOf } from "../killed_service.ts";
import { BucketServer } from "./bucket_server.ts";
import { DirectSession } from "./direct_session.ts";
import type { FleetPlan } from "./plan.ts";
import { LedgerProvider } from "./provider.ts";
import { TcpProxy } from "./tcp_proxy.ts";

/** A process of a worker. */
export interface Worker {
  /** Its place in the fleet: it is started again under the same name. */
  readonly place: number;
  readonly name: string;
  /** In the ledger of the provider; of one start of a worker. */
  readonly process: string;
  readonly child: ChildProcess;
  readonly url: string;
  /** Between it and PostgreSQL. */
  readonly database: TcpProxy;
  /** Between it and the workers that call it. */
  readonly private: TcpProxy;
  /** In `perigee_workers`. */
  readonly id: string;
  readonly skewFile: string;
  readonly stderr: () => string;
}

/** Of PostgreSQL: small, so that a rival can take all of its sessions; deadlocks are found at once. */
const SETTINGS = [
  "max_connections=60",
  "deadlock_timeout=200ms",
  "shared_buffers=32MB",
  "max_wal_size=128MB",
];
const SMALL_DISK_MB = 192;
export const IN_FLIGHT = 8;
const SKEWED = fileURLToPath(new URL("skewed_clock.mjs", import.meta.url));
const SECRETS_KEY = Buffer.alloc(32, 7).toString("base64");

export class FaultFleet {
  readonly plan: FleetPlan;
  readonly dir: string = mkdtempSync(join(tmpdir(), "perigee-seeds-"));
  readonly postgres: PostgresServer;
  readonly provider: LedgerProvider;
  readonly bucket: BucketServer;
  /** Not through a proxy. */
  readonly session: DirectSession;
  /** By place; a killed one stays here until it is started again. */
  readonly workers: Worker[] = [];
  /** Where the small disk of the database is mounted; undefined where that is not allowed. */
  readonly disk: string | undefined;
  /** Processes of workers and clients, which end with the fleet. */
  readonly children = new Set<ChildProcess>();
  #starts = 0;
  #isClosed = false;

  private constructor(
    parts: Pick<FaultFleet, "plan" | "postgres" | "provider" | "bucket" | "session" | "disk">,
  ) {
    this.plan = parts.plan;
    this.postgres = parts.postgres;
    this.provider = parts.provider;
    this.bucket = parts.bucket;
    this.session = parts.session;
    this.disk = parts.disk;
  }

  static async open(plan: FleetPlan, seed: number): Promise<FaultFleet> {
    const postgres = await PostgresServer.start(SETTINGS);
    const disk = await smallDisk(postgres);
    await postgres.run(`ALTER DATABASE postgres SET default_transaction_isolation = '${plan.isolation}'`);
    const session = new DirectSession(await postgres.freshUrl());
    const [provider, bucket] = await Promise.all([
      LedgerProvider.open(),
      BucketServer.open(createRandom(seed)),
    ]);
    const fleet = new FaultFleet({ plan, postgres, provider, bucket, session, disk });
    writeFileSync(
      join(fleet.dir, "config.json"),
      JSON.stringify({
        prices: { "local:priced": { inputUsdPerMillion: 1, outputUsdPerMillion: 1 } },
        providers: { local: {} },
      }),
    );
    await fleet.start(0);
    await Promise.all(Array.from({ length: plan.workers - 1 }, (_, index) => fleet.start(index + 1)));
    await fleet.settled();
    return fleet;
  }

  /** The address of the database through a proxy. */
  storeThrough({ port }: TcpProxy): string {
    const url = new URL(this.session.url);
    url.port = String(port);
    return url.href;
  }

  async proxy(): Promise<TcpProxy> {
    this.#starts += 1;
    return TcpProxy.open({ host: "127.0.0.1", port: this.postgres.port }, createRandom(this.#starts));
  }

  get objectWords(): readonly string[] {
    if (this.plan.objects === "rows") return [];
    if (this.plan.objects === "bucket") return ["--objects", "s3://bucket/fleet"];
    return ["--objects", pathToFileURL(join(this.dir, "objects")).href];
  }

  get env(): NodeJS.ProcessEnv {
    return { ...process.env, ...this.bucket.env, PERIGEE_SECRETS_KEY: SECRETS_KEY };
  }

  /** Starts the worker of a place; `isTwin`: beside the one that is there, with its name. Resolves once it answers. */
  async start(place: number, isTwin = false): Promise<Worker> {
    if (this.#isClosed) throw new Error("the fleet is closed");
    const name = `w${place + 1}`;
    const database = await this.proxy();
    const process_ = `${name}-${this.#starts}`;
    const skewFile = join(this.dir, `${process_}.skew`);
    const store = this.storeThrough(database);
    const places = ["--port", "0", "--name", name, "--data", join(this.dir, isTwin ? process_ : name)];
    const words = ["serve", "--store", store, ...this.objectWords, ...places, "--default-sla", "30m"];
    const child = spawn(
      process.execPath,
      ["--import", SKEWED, MAIN, ...words, "--log-level", "error", "--config", join(this.dir, "config.json")],
      {
        stdio: ["ignore", "pipe", "pipe"],
        env: {
          ...this.env,
          PERIGEE_PROVIDER_LOCAL_BASE_URL: `http://127.0.0.1:${this.provider.port}/${process_}/v1`,
          PERIGEE_MAX_INFLIGHT: String(IN_FLIGHT),
          PERIGEE_EGRESS_ALLOW: "127.0.0.0/8",
          PERIGEE_TEST_SKEW_FILE: skewFile,
        },
      },
    );
    this.children.add(child);
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += String(chunk);
    });
    const ended = once(child, "exit").then(([code]) => {
      throw new Error(`worker ${name} ended with ${code}: ${stderr}`);
    });
    ended.catch(() => undefined);
    const url = await Promise.race([urlOf(child), ended]);
    const { id, private: own } = await this.#redirected(name);
    const worker: Worker = {
      ...{ place, name, process: process_, child, url, database, private: own, id, skewFile },
      stderr: () => stderr,
    };
    if (!isTwin) this.workers[place] = worker;
    return worker;
  }

  /** Puts a proxy before the private port of the worker that registered last under a name. */
  async #redirected(name: string): Promise<Pick<Worker, "id" | "private">> {
    const rows = await this.session.rows<{ readonly id: string; readonly address: string }>(
      `SELECT id, address FROM perigee_workers WHERE name = '${name}' ORDER BY started DESC LIMIT 1`,
    );
    const [row] = rows as [(typeof rows)[0]]; // its address was printed after it had registered
    const port = Number(new URL(row.address).port);
    const proxy = await TcpProxy.open({ host: "127.0.0.1", port }, createRandom(port));
    await this.session.rows(
      `UPDATE perigee_workers SET address = 'http://127.0.0.1:${proxy.port}' WHERE id = '${row.id}'`,
    );
    return { id: row.id, private: proxy };
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  isAlive({ child }: Worker): boolean {
    return child.exitCode === null && child.signalCode === null;
  }

  /** Resolves when each worker owns a partition and none is free. */
  async settled(atMostMs = 60_000): Promise<void> {
    const untilMs = performance.now() + atMostMs;
    for (;;) {
      const owned = await this.owners();
      const owners = new Set(owned.values());
      const all = await this.session.rows("SELECT FROM perigee_partitions WHERE in_fleet");
      const alive = this.workers.filter((worker) => this.isAlive(worker));
      if (owned.size === all.length && alive.every(({ id }) => owners.has(id))) return;
      if (performance.now() > untilMs)
        throw new Error(`the fleet has not settled: ${JSON.stringify([...owned])}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  /** The id of the worker that has each partition. */
  async owners(): Promise<ReadonlyMap<number, string>> {
    const rows = await this.session.rows<{ readonly part: number; readonly owner: string }>(
      "SELECT part, owner FROM perigee_partitions WHERE in_fleet AND lease_until > clock_timestamp()",
    );
    return new Map(rows.map(({ part, owner }) => [part, owner]));
  }

  async key(project: string): Promise<string> {
    const keys = new PgKeyStore(this.session.query, systemClock);
    const scopes = SCOPES.filter((scope) => scope !== "admin");
    const { key } = await keys.create({ project, name: "default", scopes, isBeta: true });
    await keys.close();
    return key;
  }

  /** Ends everything. Resolves with what the workers did wrong on the way. */
  async close(): Promise<readonly string[]> {
    this.#isClosed = true;
    const wrong = await Promise.all(this.workers.map((worker) => this.#ended(worker)));
    for (const child of this.children) child.kill("SIGKILL");
    this.session.end();
    this.provider.close();
    this.bucket.close();
    await this.postgres.remove();
    if (this.disk !== undefined) {
      execFileSync("umount", ["-l", this.disk]);
      rmSync(this.disk, { recursive: true });
    }
    rmSync(this.dir, { recursive: true, force: true });
    return wrong.flat();
  }

  async #ended(worker: Worker): Promise<readonly string[]> {
    const { child, name, database, stderr } = worker;
    const wrong: string[] = [];
    if (this.isAlive(worker)) {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), 20_000);
      const [code] = await once(child, "exit");
      clearTimeout(timer);
      if (code !== 0) wrong.push(`${name} ended with ${code} after SIGTERM: ${stderr().slice(-500)}`);
    }
    database.close();
    worker.private.close();
    return wrong;
  }
}

/** A small disk for all tables, so that it can be filled; undefined without the right to mount one. */
async function smallDisk(postgres: PostgresServer): Promise<string | undefined> {
  const mount = mkdtempSync(join(tmpdir(), "perigee-small-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${SMALL_DISK_MB}m`, "tmpfs", mount], {
      stdio: "ignore",
    });
  } catch {
    rmSync(mount, { recursive: true });
    return undefined;
  }
  const { uid, gid } = statSync(postgres.folder);
  chownSync(mount, uid, gid);
  await postgres.run(`CREATE TABLESPACE small LOCATION '${mount}'`);
  await postgres.run("ALTER DATABASE postgres SET default_tablespace = small");
  return mount;
}

/** Lines of a file. */
export function linesOf(path: string): readonly string[] {
  const text = readFileSync(path, "utf8");
  return text === "" ? [] : text.trimEnd().split("\n");
}
