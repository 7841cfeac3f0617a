/**
 * A fleet of real processes on a real PostgreSQL, with a provider of its own, for tests that kill workers.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { connectPg, type PgSession } from "../../src/store/postgres/pg_session.ts";
import { MAIN } from "../built.ts";
import { urlOf } from "./killed_service.ts";

/** 32 bytes, the same for all workers. */
const SECRETS_KEY = Buffer.alloc(32, 7).toString("base64");

export interface FleetProcess {
  readonly name: string;
  readonly child: ChildProcess;
  readonly url: string;
  readonly stderr: () => string;
}

/** A command that runs. */
export interface FleetClient {
  readonly child: ChildProcess;
  readonly ended: Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>;
}

export interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answered {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: Headers;
}

export class FleetWorld {
  readonly #dir = mkdtempSync(join(tmpdir(), "perigee-fleet-"));
  readonly #store: string;
  readonly #provider: Server;
  readonly workers: FleetProcess[] = [];
  /** How often each item was asked for, by the number in its text. */
  readonly asked: Map<number, number> = new Map<number, number>();
  /** When each request came. */
  readonly askedAtMs: number[] = [];
  /** By which worker each request was sent. */
  readonly askedBy: string[] = [];
  /** How long the provider takes. */
  answerMs = 50;
  readonly #unanswered = new Set<() => void>();
  /** Refuses a request at once; undefined: it is answered. */
  refuse: ((item: number) => Refusal | undefined) | undefined;
  /** Requests that the provider works on: until it has answered, or their connection is closed. */
  inFlight = 0;
  mostInFlight = 0;
  #session: PgSession | undefined;
  #terms: object = {};
  readonly #clients: ChildProcess[] = [];

  private constructor(store: string, provider: Server) {
    this.#store = store;
    this.#provider = provider;
  }

  /** `config`: besides the provider, of all workers. */
  static async open(store: string, config: object = {}): Promise<FleetWorld> {
    const provider = createServer();
    const world = new FleetWorld(store, provider);
    provider.on("request", (request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => {
        body += String(chunk);
      });
      request.on("end", () => {
        const item = Number(/\[\[(\d+)\]\]/.exec(body)?.[1]);
        world.askedAtMs.push(performance.now());
        world.askedBy.push(String(request.headers["x-worker"]));
        world.asked.set(item, (world.asked.get(item) ?? 0) + 1);
        world.inFlight += 1;
        world.mostInFlight = Math.max(world.mostInFlight, world.inFlight);
        response.on("close", () => {
          world.inFlight -= 1;
        });
        const refusal = world.refuse?.(item);
        if (refusal !== undefined) {
          response.writeHead(refusal.status, { "content-type": "application/json", ...refusal.headers });
          response.end(
            JSON.stringify({ error: { message: refusal.code, code: refusal.code, type: refusal.code } }),
          );
          return;
        }
        const answered = (): void => {
          clearTimeout(timer);
          world.#unanswered.delete(answered);
          answer(response, item, body.includes('"stream":true'));
        };
        world.#unanswered.add(answered);
        const timer = setTimeout(answered, world.answerMs);
      });
    });
    provider.listen(0, "127.0.0.1");
    await once(provider, "listening");
    world.configure(config);
    return world;
  }

  /** For workers that start from now on. */
  configure(config: object): void {
    const prices = { "local:priced": { inputUsdPerMillion: 1, outputUsdPerMillion: 1 } };
    this.#terms = { prices, ...config };
  }

  /** Writes the configuration of a worker, whose requests name it. Returns its path. */
  #configOf(worker: string): string {
    const path = join(this.#dir, `${worker}.json`);
    const providers = { local: { headers: { "x-worker": worker } } };
    writeFileSync(path, JSON.stringify({ ...this.#terms, providers }));
    return path;
  }

  /** Resolves when it answers callers. `main`: the command of another version. */
  async start(name: string, flags: readonly string[] = [], main: string = MAIN): Promise<FleetProcess> {
    const { port } = this.#provider.address() as AddressInfo;
    const words = [
      "serve",
      "--store",
      this.#store,
      "--objects",
      pathToFileURL(join(this.#dir, "objects")).href,
    ];
    const places = ["--port", "0", "--name", name, "--data", join(this.#dir, name), "--log-level", "error"];
    const child = spawn(
      process.execPath,
      [main, ...words, ...places, "--config", this.#configOf(name), "--default-sla", "30m", ...flags],
      {
        stdio: ["ignore", "pipe", "pipe"],
        env: {
          ...process.env,
          PERIGEE_SECRETS_KEY: SECRETS_KEY,
          PERIGEE_PROVIDER_LOCAL_BASE_URL: `http://127.0.0.1:${port}/v1`,
          PERIGEE_MAX_INFLIGHT: "8",
        },
      },
    );
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += String(chunk);
    });
    const ended = once(child, "exit").then(() => {
      throw new Error(`worker ${name} ended: ${stderr}`);
    });
    ended.catch(() => undefined);
    const worker = { name, child, url: await Promise.race([urlOf(child), ended]), stderr: () => stderr };
    this.workers.push(worker);
    return worker;
  }

  /** Runs a file of lines over the fleet, as `perigee run` does. Its paths are in a folder of the world. */
  run(input: string, out: string, flags: readonly string[] = [], main: string = MAIN): FleetClient {
    const objects = pathToFileURL(join(this.#dir, "objects")).href;
    const words = [
      "run",
      this.path(input),
      "--out",
      this.path(out),
      "--store",
      this.#store,
      "--objects",
      objects,
    ];
    const child = spawn(process.execPath, [main, ...words, "--no-config", "--json", ...flags], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (chunk: Buffer) => {
      stdout += String(chunk);
    });
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += String(chunk);
    });
    const ended = once(child, "close").then(() => ({ code: child.exitCode, stdout, stderr }));
    this.#clients.push(child);
    return { child, ended };
  }

  /** The provider answers now what it has. */
  answerNow(): void {
    for (const answered of [...this.#unanswered]) answered();
  }

  path(name: string): string {
    return join(this.#dir, name);
  }

  /** How many requests the provider has seen. */
  get requests(): number {
    return [...this.asked.values()].reduce((sum, times) => sum + times, 0);
  }

  /** Makes a key of a project. */
  async key(project: string, main: string = MAIN): Promise<{ readonly id: string; readonly key: string }> {
    const made = await this.#keys(["create", "--project", project, "--json"], main);
    return JSON.parse(made) as { id: string; key: string };
  }

  async revoke(id: string): Promise<void> {
    await this.#keys(["revoke", id]);
  }

  /** Waits without blocking: connections that the service closes meanwhile are noticed. */
  async #keys(words: readonly string[], main: string = MAIN): Promise<string> {
    const { stdout } = await promisify(execFile)(process.execPath, [
      main,
      "keys",
      ...words,
      "--store",
      this.#store,
    ]);
    return stdout;
  }

  /** Rows of the database. */
  async rows<T>(sql: string): Promise<readonly T[]> {
    this.#session ??= await connectPg(this.#store);
    return (await this.#session.query(sql)).rows as readonly T[]; // as selected
  }

  /** The worker whose process answers for a project. */
  async homeOf(project: string): Promise<FleetProcess> {
    const [row] = await this.rows<{ readonly owner: string }>(
      `SELECT owner FROM perigee_partitions p JOIN perigee_projects h ON h.part = p.part WHERE h.project = '${project}'`,
    );
    const found = this.workers.find(({ name }) => row?.owner.startsWith(`${name}/`) === true);
    if (found === undefined) throw new Error(`${project} has no home: ${JSON.stringify(row)}`);
    return found;
  }

  /** Resolves when as many living workers own partitions as there are processes. */
  async settled(): Promise<void> {
    const count = this.workers.filter(
      ({ child }) => child.exitCode === null && child.signalCode === null,
    ).length;
    await this.until(async () => {
      const owners = await this.rows(
        "SELECT DISTINCT owner FROM perigee_partitions WHERE in_fleet AND lease_until > clock_timestamp()",
      );
      return owners.length >= count;
    });
  }

  async until(isSo: () => Promise<boolean>, atMostMs = 30_000): Promise<number> {
    const startedMs = performance.now();
    while (!(await isSo())) {
      if (performance.now() - startedMs > atMostMs) throw new Error(`not so after ${atMostMs} ms`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return performance.now() - startedMs;
  }

  async close(): Promise<void> {
    for (const child of [...this.#clients, ...this.workers.map((worker) => worker.child)]) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    this.#session?.end();
    this.#provider.closeAllConnections();
    this.#provider.close();
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

/** With the key of a project. */
export async function call(
  url: string,
  key: string,
  path: string,
  init: RequestInit = {},
): Promise<Answered> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answered = await fetch(`${url}${path}`, { ...init, headers: { ...headers, ...init.headers } });
  const text = await answered.text();
  const body = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : { text };
  return { status: answered.status, body, headers: answered.headers };
}

function answer(response: import("node:http").ServerResponse, item: number, isStream: boolean): void {
  if (!isStream) {
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify({
        id: "c",
        choices: [{ message: { role: "assistant", content: `answer ${item}` }, finish_reason: "stop" }],
        usage: { prompt_tokens: 5, completion_tokens: 2 },
      }),
    );
    return;
  }
  response.setHeader("content-type", "text/event-stream");
  const chunk = (delta: object, finish: string | null): string =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
  response.write(chunk({ role: "assistant", content: "answer " }, null));
  response.write(chunk({ content: String(item) }, "stop"));
  response.end(
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [], usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 } })}\n\ndata: [DONE]\n\n`,
  );
}
