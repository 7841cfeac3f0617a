/**
 * Three workers, each a process, on a real PostgreSQL, with one address: a balancer that sends each request to the next one (`balancer.ts`).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { systemClock } from "../../src/clock.ts";
import type { FleetWorkerOptions } from "../../src/fleet/worker_options.ts";
import type { NewKey } from "../../src/store/keys/new_key.ts";
import { PgKeyStore } from "../../src/store/keys/pg_key_store.ts";
import { connectPg, type PgSession } from "../../src/store/postgres/pg_session.ts";
import { compiledProgram } from "../compiled_program.ts";
import { PostgresServer } from "../postgres_server.ts";
import { Balancer } from "./balancer.ts";
import { urlOf } from "./killed_service.ts";

const PROGRAM = fileURLToPath(new URL("balanced_worker.ts", import.meta.url));
/** The same for all workers. */
const SECRETS_KEY = Buffer.alloc(32, 7).toString("base64");
const NAMES = ["one", "two", "three"];
const SETTLED_MS = 60_000;

export interface BalancedOptions {
  /** Of the workers, besides those of the fleet. */
  readonly options?: Omit<Partial<FleetWorkerOptions>, "fleet"> & { readonly isBrought?: boolean };
  /** Variables of the workers. */
  readonly env?: Readonly<Record<string, string>>;
}

interface MadeKey {
  readonly id: string;
  readonly key: string;
}

export class BalancedFleet {
  readonly balancer: Balancer;
  readonly #postgres: PostgresServer;
  readonly #store: string;
  readonly #session: PgSession;
  readonly #given: BalancedOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), "perigee-balanced-"));
  readonly #program = compiledProgram(PROGRAM, this.#folder);
  #workers: ChildProcess[] = [];

  private constructor(
    given: BalancedOptions,
    {
      balancer,
      postgres,
      store,
      session,
    }: { balancer: Balancer; postgres: PostgresServer; store: string; session: PgSession },
  ) {
    this.#given = given;
    this.balancer = balancer;
    this.#postgres = postgres;
    this.#store = store;
    this.#session = session;
  }

  /** Resolves when each of the three workers owns a partition. */
  static async open(given: BalancedOptions = {}): Promise<BalancedFleet> {
    const postgres = await PostgresServer.start();
    const store = await postgres.freshUrl();
    const [balancer, session] = await Promise.all([Balancer.open(), connectPg(store)]);
    const fleet = new BalancedFleet(given, { balancer, postgres, store, session });
    try {
      await fleet.start();
    } catch (error) {
      await fleet.close();
      throw error;
    }
    return fleet;
  }

  get url(): string {
    return this.balancer.url;
  }

  /** Starts the workers, on what earlier ones have left. */
  async start(): Promise<void> {
    this.balancer.backends = await Promise.all(NAMES.map((name) => this.#start(name)));
    await this.until(async () => {
      const { count } = await this.#session.query(
        "SELECT DISTINCT owner FROM perigee_partitions WHERE in_fleet AND lease_until > clock_timestamp()",
      );
      return count === NAMES.length;
    });
  }

  /** Ends the workers with SIGTERM, all at once. */
  async stop(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => ended(worker, "SIGTERM")));
    this.#workers = [];
  }

  /** Makes a key, which callers name by `alias` if that is given: the balancer replaces it. */
  async key(wanted: NewKey, alias?: string): Promise<MadeKey> {
    const { key, stored } = await this.#keys.create(wanted);
    if (alias !== undefined) this.balancer.keys.set(alias, key);
    return { id: stored.id, key };
  }

  async revoke(id: string): Promise<void> {
    await this.#keys.revoke(id);
  }

  /** The partition in which a project is at home. */
  async homeOf(project: string): Promise<number | undefined> {
    const { rows } = await this.#session.query(
      "SELECT part FROM perigee_projects WHERE project = $1",
      project,
    );
    return (rows as readonly { readonly part: number }[])[0]?.part; // as selected
  }

  async until(isSo: () => Promise<boolean>): Promise<void> {
    const startedMs = performance.now();
    while (!(await isSo())) {
      if (performance.now() - startedMs > SETTLED_MS) throw new Error(`not so after ${SETTLED_MS} ms`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => ended(worker, "SIGKILL")));
    await this.balancer.close();
    this.#session.end();
    await this.#postgres.remove();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #keys(): PgKeyStore {
    return new PgKeyStore(this.#session.query, systemClock);
  }

  async #start(name: string): Promise<string> {
    const { options = {}, env = {} } = this.#given;
    const objects = pathToFileURL(join(this.#folder, "objects")).href;
    const whole: FleetWorkerOptions & { readonly isBrought?: boolean } = {
      ...{ ...options, dataDir: join(this.#folder, name), isBehindProxy: true, publicUrl: this.url },
      fleet: { store: this.#store, objects, name, port: 0 },
    };
    const child = spawn(process.execPath, [this.#program, JSON.stringify(whole)], {
      stdio: ["pipe", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], PERIGEE_SECRETS_KEY: SECRETS_KEY, ...env },
    });
    this.#workers.push(child);
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += String(chunk);
      if (process.env["FLEET_LOG"] !== undefined) process.stderr.write(chunk);
    });
    const failed = once(child, "exit").then(() => {
      throw new Error(`worker ${name} ended: ${stderr}`);
    });
    failed.catch(() => undefined);
    return Promise.race([urlOf(child), failed]);
  }
}

async function ended(child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill(signal);
  await exit;
}
