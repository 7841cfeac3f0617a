/**
 * A fleet for benches: a PostgreSQL of its own, and workers as processes of the built command. Close it.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { connectPg } from "../../src/store/postgres/pg_session.ts";
import { FarLine } from "../../test/faults/far_line.ts";
import { PostgresServer } from "../../test/postgres_server.ts";
import { usageOf } from "./main_job.ts";

export const MAIN = "dist/cli/main.js";
const WORKER_WAIT_MS = 60_000;

/** What workers need to know of a provider on a port of this machine. */
export function providerEnv(port: number): NodeJS.ProcessEnv {
  return {
    PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
    PERIGEE_PROVIDER_OPENAI_KEY: "bench",
    PERIGEE_MAX_INFLIGHT: "64",
  };
}

export interface BenchWorker {
  readonly url: string;
  readonly pid: number;
}

export class BenchFleet {
  readonly dir: string = mkdtempSync(join(tmpdir(), "perigee-bench-"));
  readonly postgres: PostgresServer;
  /** The address of the database. */
  readonly store: string;
  readonly workers: BenchWorker[] = [];
  readonly #children: ChildProcess[] = [];
  readonly #env: NodeJS.ProcessEnv;

  /** Between the workers and the database. */
  readonly #line: FarLine | undefined;

  private constructor(
    postgres: PostgresServer,
    store: string,
    env: NodeJS.ProcessEnv,
    line: FarLine | undefined,
  ) {
    this.postgres = postgres;
    this.store = store;
    this.#line = line;
    this.#env = { ...env, PERIGEE_SECRETS_KEY: Buffer.alloc(32, 7).toString("base64") };
  }

  /** `env`: of the workers. PROFILE=folder profiles each of them. `roundTripMs`: how far they are from the database. */
  static async open(env: NodeJS.ProcessEnv, roundTripMs: number = 0): Promise<BenchFleet> {
    const postgres = await PostgresServer.start();
    const line = roundTripMs === 0 ? undefined : await FarLine.open(postgres.port);
    if (line !== undefined) line.roundTripMs = roundTripMs;
    return new BenchFleet(postgres, await postgres.freshUrl(), env, line);
  }

  /** The folder that all workers share for objects. */
  get objects(): string {
    return pathToFileURL(join(this.dir, "objects")).href;
  }

  /** Starts workers, and waits until each owns a partition. */
  async start(count: number): Promise<void> {
    for (let number = 0; number < count; number += 1) await this.#startOne(`worker-${number}`);
    const session = await connectPg(this.store);
    for (let waitedMs = 0; ; waitedMs += 100) {
      const { count: owned } = await session.query(
        "SELECT FROM perigee_partitions WHERE in_fleet AND lease_until > clock_timestamp()",
      );
      if (owned >= count) break;
      if (waitedMs > WORKER_WAIT_MS) throw new Error(`only ${owned} partitions have a worker`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    session.end();
  }

  key(project: string): string {
    const words = ["keys", "create", "--project", project, "--store", this.store, "--json"];
    const told = execFileSync(process.execPath, [MAIN, ...words], { encoding: "utf8", env: this.#env });
    return (JSON.parse(told) as { key: string }).key;
  }

  /** The most that a worker has taken, in MiB. */
  peakMib(): number {
    return Math.max(...this.workers.map(({ pid }) => usageOf(pid).peakKb / 1_024));
  }

  /** Seconds of processor time of all workers, and of the server with its sessions. */
  cpuSeconds(): { readonly workers: number; readonly server: number } {
    const workers = this.workers.reduce((sum, { pid }) => sum + usageOf(pid).cpuUs / 1e6, 0);
    return { workers, server: this.postgres.cpuSeconds() };
  }

  async close(): Promise<void> {
    for (const child of this.#children) child.kill("SIGTERM");
    await Promise.all(
      this.#children.map((child) =>
        child.exitCode === null && child.signalCode === null
          ? new Promise((resolve) => child.once("exit", resolve))
          : undefined,
      ),
    );
    this.#line?.close();
    await this.postgres.remove();
    rmSync(this.dir, { recursive: true, force: true });
  }

  async #startOne(name: string): Promise<void> {
    const profiles = process.env["PROFILE"];
    const profile = profiles === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profiles}`];
    const data = join(this.dir, name);
    mkdirSync(data);
    const { port } = this.postgres;
    const store =
      this.#line === undefined ? this.store : this.store.replace(`:${port}/`, `:${this.#line.port}/`);
    const places = ["--store", store, "--objects", this.objects, "--data", data, "--name", name];
    const words = [MAIN, "serve", "--port", "0", "--log-level", "error", ...places];
    const child = spawn(process.execPath, [...profile, ...words], {
      stdio: ["ignore", "pipe", "inherit"],
      env: this.#env,
    });
    this.#children.push(child);
    const url = await new Promise<string>((resolve, reject) => {
      child.once("exit", (code) => reject(new Error(`${name} ended with ${code}`)));
      child.stdout.once("data", (chunk: Buffer) =>
        resolve((JSON.parse(chunk.toString()) as { url: string }).url),
      );
    });
    this.workers.push({ url, pid: child.pid ?? 0 });
  }
}
