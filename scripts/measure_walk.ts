/**
 * What one item passes on the main thread: `node --import tsx scripts/measure_walk.ts line|sla|immediate|execution`
 *
 *   provider and callers in a process of their own -> 2,000 items through `dist` -> precise coverage -> one line of JSON
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type Profiler, Session } from "node:inspector";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type * as Library from "../src/index.ts";
import type * as Service from "../src/service/index.ts";

export type Walk = "line" | "sla" | "immediate" | "execution";

export interface WalkFigures {
  readonly functions: number;
  readonly files: number;
}

/** What the other process posts, once for each item. */
interface Posts {
  readonly url: string;
  readonly authorization: string;
  readonly body: object;
  /** The path under which each item is polled by its id until it is final. */
  readonly status: string;
}

const ITEMS = 2_000;
const CALLERS = 16;
/** Nearly every item: some are packed together or written at once. */
const CALLS_MIN = 0.9 * ITEMS;
const MODEL = "local:gpt-test";
const SATELLITE = "/v1/satellites/perigee/deepseek-r1-distrill-llama-70b/";
const PROMPT = "Name a river that flows through two countries.";
const dist = new URL("../dist/", import.meta.url).href;

async function walk(kind: Walk): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "perigee-walk-"));
  const other = fork(fileURLToPath(import.meta.url), { execArgv: process.execArgv });
  try {
    const [baseUrl] = (await once(other, "message")) as [string];
    const options = {
      dataDir: join(folder, "data"),
      providers: { local: { baseUrl, key: "walk" } },
      limits: { local: { concurrency: 64 } },
      stateDir: false,
      env: {},
    } as const;
    const figures = kind === "line" ? await ofLines(folder, options) : await ofPosts(options, kind, other);
    console.log(JSON.stringify(figures));
  } finally {
    other.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

type Options = Parameters<typeof Library.createEngine>[0];

async function ofLines(folder: string, options: Options): Promise<WalkFigures> {
  const { createEngine } = (await import(`${dist}index.js`)) as typeof Library;
  const input = join(folder, "in.jsonl");
  const contents = [{ parts: [{ text: PROMPT }] }];
  const line = (index: number): string =>
    JSON.stringify({ key: `k${index}`, request: { model: MODEL, contents } });
  writeFileSync(input, Array.from({ length: ITEMS }, (_, index) => `${line(index)}\n`).join(""));
  const engine = await createEngine(options);
  const coverage = await Coverage.begin();
  const { counts } = await engine.run(input, { out: join(folder, "out.jsonl") }).finished;
  const figures = await coverage.end();
  if (counts.completed !== ITEMS) throw new Error(JSON.stringify(counts));
  await engine.close();
  return figures;
}

async function ofPosts(options: Options, kind: Walk, other: ChildProcess): Promise<WalkFigures> {
  const { createPerigeeService } = (await import(`${dist}service/index.js`)) as typeof Service;
  const scopes: ReadonlySet<Service.Scope> = new Set([
    "infer:write",
    "infer:read",
    "satellites:run",
    "satellites:read",
  ]);
  const caller: Service.Caller = { keyId: "walk", project: "walk", scopes, isBeta: true };
  const limits = { requestsPerMinute: 10_000_000 };
  const service = await createPerigeeService({
    ...options,
    verifier: { verify: () => caller },
    serverLimits: limits,
  });
  const url = await service.listen({ port: 0 });
  const request = { model: MODEL, input: PROMPT, ...(kind === "sla" ? { sla: 60 } : {}) };
  const isExecution = kind === "execution";
  const posts: Posts = {
    url: `${url}${isExecution ? SATELLITE : "/v0/infer/"}`,
    authorization: "Bearer walk",
    body: isExecution ? { input: { prompt: PROMPT }, config: { model: MODEL }, sla: "1h" } : [request],
    status: isExecution ? SATELLITE : "/v0/infer/task/",
  };
  const coverage = await Coverage.begin();
  other.send(posts);
  const [answer] = (await once(other, "message")) as [string];
  const figures = await coverage.end();
  await service.close();
  if (answer !== "done") throw new Error(answer);
  return figures;
}

/** Where the modules begin in a file of several: esbuild writes the path of each before it. */
function modulesOf(url: string): (offset: number) => string {
  const text = readFileSync(fileURLToPath(url), "utf8");
  const begins = [...text.matchAll(/^\/\/ ([\w/]+\.js)$/gm)].map(({ index, 1: path = "" }) => ({
    index,
    path,
  }));
  return (offset) => begins.findLast(({ index }) => index <= offset)?.path ?? url;
}

/** Counts calls of all functions from `begin` to `end`. */
class Coverage {
  readonly #session = new Session();

  static async begin(): Promise<Coverage> {
    const coverage = new Coverage();
    coverage.#session.connect();
    await coverage.#ask("Profiler.enable");
    await coverage.#ask("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    return coverage;
  }

  async end(): Promise<WalkFigures> {
    const { result } = await this.#ask<Profiler.TakePreciseCoverageReturnType>(
      "Profiler.takePreciseCoverage",
    );
    this.#session.disconnect();
    const modules = result
      .filter(({ url }) => url.startsWith(dist))
      .flatMap(({ url, functions }) => {
        const called = functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) >= CALLS_MIN);
        const moduleAt = called.length > 0 ? modulesOf(url) : () => url;
        return called.map(({ ranges }) => moduleAt(ranges[0]?.startOffset ?? 0));
      });
    return { functions: modules.length, files: new Set(modules).size };
  }

  #ask<T>(method: string, parameters: object = {}): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#session.post(method, parameters, (error, result) =>
        error === null ? resolve(result as T) : reject(error),
      );
    });
  }
}

/** Answers as a provider, and posts on request. */
async function otherProcess(): Promise<void> {
  const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };
  const choices = [
    { index: 0, message: { role: "assistant", content: "The Rhine." }, finish_reason: "stop" },
  ];
  const answer = JSON.stringify({ id: "a", object: "chat.completion", model: "gpt-test", choices, usage });
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => response.setHeader("content-type", "application/json").end(answer));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  process.on("message", (posts: Posts) => {
    postAll(posts).then(
      () => process.send?.("done"),
      (error: unknown) => process.send?.(String(error)),
    );
  });
  process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`);
}

async function postAll({ url, authorization, body, status }: Posts): Promise<void> {
  const headers = { authorization, "content-type": "application/json" };
  const ids: string[] = [];
  let left = ITEMS;
  const caller = async (): Promise<void> => {
    while (left-- > 0) {
      const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
      const text = await response.text();
      if (!response.ok) throw new Error(`${response.status} ${text}`);
      const { task_id: task, execution_id: execution } = JSON.parse(text) as Record<string, string>;
      ids.push(task ?? execution ?? "");
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  for (const id of ids.slice(-CALLERS)) {
    for (;;) {
      const response = await fetch(`${new URL(status, url).href}${id}/`, { headers });
      const { status: state } = (await response.json()) as { status: string };
      if (state === "completed") break;
      if (state !== "submitted" && state !== "pending" && state !== "running")
        throw new Error(`a ${state} item`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

if (process.send === undefined) await walk((process.argv[2] ?? "line") as Walk);
else await otherProcess();
