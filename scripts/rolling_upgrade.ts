/**
 * A rolling upgrade of a fleet from an earlier commit, under load: `npm run fleet:upgrade -- [--old <commit>] [--before <commit>] [--builds <folder>]`, some minutes.
 *
 * Builds the earlier commit beside the repository, and starts two workers of it on a real PostgreSQL. While posts, a file over the fleet and a
 * batch are at work, it migrates the database, starts a worker of this version and stops one of the old ones (SIGTERM), then another pair
 * (SIGKILL). Ends with 0 if every task that was acknowledged is answered once and each line has one answer. `--before` names a commit whose
 * store on PostgreSQL had no fleet: a task that it has half done is ended by this version; empty: not done, as with an empty `--old`. `--builds` keeps the builds for the next run.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { table } from "../src/cli/table.ts";
import { MAIN } from "../test/built.ts";
import { call, type FleetClient, type FleetProcess, FleetWorld } from "../test/faults/fleet_world.ts";
import { PostgresServer } from "../test/postgres_server.ts";

/** The first commit with the whole fleet. */
const FIRST_FLEET = "d2ce63f1";
/** The last one that had the store on PostgreSQL and no fleet. */
const BEFORE_FLEET = "224fbbe2^";
const REPOSITORY = fileURLToPath(new URL("..", import.meta.url));
const POST_EVERY_MS = 150;
const ANSWER_MS = 30;
const LINES = 4_000;
const RUN_FROM = 100_000;
const BATCH_LINES = 300;
const BATCH_FROM = 200_000;
const IN_FLIGHT = 8;
const END_MS = 180_000;

const { values: given } = parseArgs({
  options: {
    old: { type: "string", default: FIRST_FLEET },
    before: { type: "string", default: BEFORE_FLEET },
    builds: { type: "string" },
  },
});
const folder = mkdtempSync(join(tmpdir(), "perigee-upgrade-"));
const startedMs = performance.now();
const steps: string[][] = [["seconds", "what", "found"]];
const faults: string[] = [];
const pause = (delayMs: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, delayMs));

function note(what: string, found = ""): void {
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
  steps.push([seconds, what, found]);
  process.stderr.write(`${seconds} ${what} ${found}\n`);
}

function check(isSo: boolean, what: string, found: string): void {
  note(what, found);
  if (!isSo) faults.push(`${what}: ${found}`);
}

/** A build of a commit, outside the repository. */
class OldVersion {
  readonly #folder: string;
  readonly #isKept: boolean;

  constructor(commit: string, name: string) {
    this.#folder = join(given.builds ?? folder, name);
    this.#isKept = given.builds !== undefined;
    if (existsSync(this.built("cli/main.js"))) return;
    git("worktree", "add", "--quiet", "--detach", this.#folder, commit);
    symlinkSync(join(REPOSITORY, "node_modules"), join(this.#folder, "node_modules"));
    execFileSync("npm", ["run", "--silent", "build"], {
      cwd: this.#folder,
      stdio: ["ignore", "ignore", "inherit"],
    });
  }

  built(path: string): string {
    return join(this.#folder, "dist", path);
  }

  remove(): void {
    if (!this.#isKept) git("worktree", "remove", "--force", this.#folder);
  }
}

function git(...words: readonly string[]): void {
  execFileSync("git", words, { cwd: REPOSITORY, stdio: ["ignore", "ignore", "inherit"] });
}

/** Posts until it is stopped; each post that fails is sent again with its key, through any worker. */
class Poster {
  readonly #world: FleetWorld;
  readonly #key: string;
  /** Items by the task that was acknowledged for them. */
  readonly acknowledged: Map<string, number> = new Map();
  refused = 0;
  #isStopped = false;
  readonly done: Promise<void>;

  constructor(world: FleetWorld, key: string, from: number) {
    this.#world = world;
    this.#key = key;
    this.done = this.#post(from);
  }

  stop(): Promise<void> {
    this.#isStopped = true;
    return this.done;
  }

  async #post(from: number): Promise<void> {
    for (let item = from; !this.#isStopped; item += 1) {
      const body = JSON.stringify([{ model: "local:small", input: `[[${item}]]`, sla: 30 }]);
      const post = { method: "POST", body, headers: { "idempotency-key": `i${item}` } };
      for (let turn = item; ; turn += 1) {
        const { url } = living(this.#world)[turn % living(this.#world).length] as FleetProcess; // some live
        const answer = await call(url, this.#key, "/v0/infer/", post).catch(() => undefined);
        if (answer?.status === 200) {
          this.acknowledged.set(String(answer.body["task_id"]), item);
          break;
        }
        this.refused += 1;
        await pause(POST_EVERY_MS);
      }
      await pause(POST_EVERY_MS);
    }
  }

  /** Tasks that are not completed with the answer of their item. */
  async wrong(): Promise<readonly string[]> {
    const wrong: string[] = [];
    for (const [task, item] of this.acknowledged) {
      const [{ url }] = living(this.#world) as [FleetProcess];
      const { body } = await call(url, this.#key, `/v0/infer/task/${task}`);
      const { objects = [] } = body as { objects?: { output?: { text: string } }[] };
      if (objects.length !== 1 || objects[0]?.output?.text !== `answer ${item}`) wrong.push(task);
    }
    return wrong;
  }
}

function living(world: FleetWorld): readonly FleetProcess[] {
  return world.workers.filter(({ child }) => child.exitCode === null && child.signalCode === null);
}

const lineOf = (item: number): object => ({
  key: `k${item}`,
  request: { model: "local:small", contents: [{ parts: [{ text: `[[${item}]]` }] }] },
});
const jsonl = (from: number, count: number): string =>
  Array.from({ length: count }, (_, index) => `${JSON.stringify(lineOf(from + index))}\n`).join("");

async function startBatch(url: string, key: string): Promise<string> {
  const form = new FormData();
  form.append("file", new Blob([jsonl(BATCH_FROM, BATCH_LINES)]), "in.jsonl");
  form.append("purpose", "batch");
  const headers = { authorization: `Bearer ${key}` };
  const sent = await fetch(`${url}/v1/files`, { method: "POST", headers, body: form });
  const { id } = (await sent.json()) as { id: string };
  const terms = { input_file_id: id, endpoint: "/v1/chat/completions", completion_window: "24h" };
  const { body } = await call(url, key, "/v1/batches", { method: "POST", body: JSON.stringify(terms) });
  return String(body["id"]);
}

async function batchLines(url: string, key: string, id: string): Promise<number> {
  const { body } = await call(url, key, `/v1/batches/${id}`);
  if (body["status"] !== "completed") return -1;
  const headers = { authorization: `Bearer ${key}` };
  const file = await fetch(`${url}/v1/files/${String(body["output_file_id"])}/content`, { headers });
  return unique((await file.text()).trimEnd().split("\n"), "custom_id");
}

/** How many lines there are, or NaN if two have one key. */
function unique(lines: readonly string[], member: string): number {
  const keys = new Set(lines.map((line) => (JSON.parse(line) as Record<string, unknown>)[member]));
  return keys.size === lines.length ? lines.length : Number.NaN;
}

/** Stops an old worker once a new one has started; its partitions go to others. */
async function replace(
  world: FleetWorld,
  old: FleetProcess,
  name: string,
  signal: "SIGTERM" | "SIGKILL",
): Promise<void> {
  const before = world.requests;
  await world.start(name);
  await world.settled();
  const ended = once(old.child, "exit");
  old.child.kill(signal);
  await ended;
  note(
    `${name} of this version works, ${old.name} has ended by ${signal}`,
    `${world.requests - before} requests meanwhile`,
  );
  const freeMs = await world.until(async () => {
    const left = await world.rows(
      `SELECT 1 FROM perigee_partitions WHERE in_fleet AND (owner LIKE '${old.name}/%' OR lease_until < clock_timestamp())`,
    );
    return left.length === 0;
  });
  check(freeMs < 10_000, "its partitions have another owner", `${(freeMs / 1_000).toFixed(1)} s later`);
}

async function upgrade(old: OldVersion, store: string): Promise<void> {
  const world = await FleetWorld.open(store);
  try {
    world.answerMs = ANSWER_MS;
    const oldMain = old.built("cli/main.js");
    const [one, two] = await Promise.all(["old1", "old2"].map((name) => world.start(name, [], oldMain)));
    await world.settled();
    const keys = [await world.key("acme", oldMain), await world.key("beta", oldMain)].map(({ key }) => key);
    const [acme = "", beta = ""] = keys;
    const posters = [new Poster(world, acme, 0), new Poster(world, beta, 50_000)];
    writeFileSync(world.path("in.jsonl"), jsonl(RUN_FROM, LINES));
    const run = world.run("in.jsonl", "out.jsonl", [], oldMain);
    const batch = await startBatch(two?.url ?? "", acme);
    await world.until(async () => world.asked.size > 200, END_MS);
    note("two workers of the old version work", `${world.requests} requests`);
    note(execFileSync(process.execPath, [MAIN, "migrate", "--store", store], { encoding: "utf8" }).trim());
    const atMigration = posters.map(({ acknowledged }) => acknowledged.size);
    await world.until(async () =>
      posters.every(({ acknowledged }, at) => acknowledged.size > (atMigration[at] ?? 0) + 10),
    );
    check(true, "old workers go on after the migration", "10 posts acknowledged for each project");
    await refusedOld(oldMain, store);
    await replace(world, one as FleetProcess, "new1", "SIGTERM");
    const asked = new Map(world.asked);
    await replace(world, two as FleetProcess, "new2", "SIGKILL");
    await pause(3_000);
    await Promise.all(posters.map((poster) => poster.stop()));
    await runEnded(world, run);
    const lines = readFileSync(world.path("out.jsonl"), "utf8").trimEnd().split("\n");
    check(unique(lines, "key") === LINES, "its lines", String(lines.length));
    const [{ url }] = living(world) as [FleetProcess];
    let found = -1;
    await world.until(async () => {
      found = await batchLines(url, acme, batch);
      return found !== -1;
    }, END_MS);
    check(found === BATCH_LINES, "the lines of the batch", String(found));
    for (const poster of posters) {
      let wrong: readonly string[] = [];
      const isRight = async (): Promise<boolean> => {
        wrong = await poster.wrong();
        return wrong.length === 0;
      };
      await world.until(isRight, END_MS).catch(() => undefined);
      check(
        wrong.length === 0,
        `of ${poster.acknowledged.size} acknowledged tasks lost or wrong`,
        `${wrong.length}; ${poster.refused} posts were sent again`,
      );
    }
    const twice = [...world.asked].filter(([, times]) => times > 1);
    const twiceBefore = [...asked].filter(([, times]) => times > 1);
    check(twiceBefore.length === 0, "sent twice around SIGTERM", String(twiceBefore.length));
    check(
      twice.length <= 2 * IN_FLIGHT,
      "sent twice around SIGKILL",
      `${twice.length - twiceBefore.length}, at most ${2 * IN_FLIGHT}`,
    );
  } finally {
    await world.close();
  }
}

/** With a client of this version, where that of the old one met the migrated database. */
async function runEnded(world: FleetWorld, run: FleetClient): Promise<void> {
  const first = await run.ended;
  const isRefused = first.stderr.includes("data_dir_newer");
  if (isRefused)
    note("the client of the old version ended: it met the migrated database, as production.md says");
  const { code, stderr } = isRefused ? await world.run("in.jsonl", "out.jsonl").ended : first;
  const ended = `exit code ${code}${code === 0 ? "" : `: ${stderr.slice(-500)}`}`;
  check(code === 0, "the file over the fleet has ended", ended);
}

/** A worker of the old version that starts now is refused. */
async function refusedOld(oldMain: string, store: string): Promise<void> {
  const env = { ...process.env, PERIGEE_SECRETS_KEY: Buffer.alloc(32, 7).toString("base64") };
  const words = ["serve", "--store", store, "--name", "late", "--port", "0", "--data", join(folder, "late")];
  const child = spawn(process.execPath, [oldMain, ...words], {
    env,
    stdio: ["ignore", "ignore", "pipe"],
    timeout: 60_000,
  });
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += String(chunk);
  });
  await once(child, "close");
  check(
    child.exitCode !== 0 && /newer/.test(stderr),
    "a worker of the old version that starts now is refused",
    /the database has schema[^"]*/.exec(stderr)?.[0] ?? stderr.slice(-500),
  );
}

/** A program with one task on a store: ends after `stop` answers, or when all are there. */
const PROGRAM = `
const [index, fleet, url, dataDir, stop] = process.argv.slice(1);
const { createEngine } = await import(index);
const { openPostgresStore } = await import(fleet);
const store = await openPostgresStore({ url });
const engine = await createEngine({ dataDir, stateDir: false, store });
const items = Array.from({ length: 400 }, (_, at) => ({ key: "k" + at, model: "echo:small", input: "text " + at }));
const texts = new Set();
for await (const { output } of engine.submit(items, { id: "questions" })) {
  texts.add(output?.text);
  if (texts.size === Number(stop)) process.kill(process.pid, "SIGKILL");
}
await engine.close();
await store.close();
process.stdout.write(JSON.stringify([...texts]));
`;

async function beforeFleet(before: OldVersion, store: string): Promise<void> {
  const run = (place: (path: string) => string, stop: string) => {
    const words = [place("index.js"), place("fleet/index.js")].map((path) => pathToFileURL(path).href);
    const child = spawn(
      process.execPath,
      ["--input-type=module", "--eval", PROGRAM, ...words, store, join(folder, "data"), stop],
      {
        stdio: ["ignore", "pipe", "inherit"],
        timeout: END_MS,
      },
    );
    let stdout = "";
    child.stdout.on("data", (chunk: Buffer) => {
      stdout += String(chunk);
    });
    return once(child, "close").then(() => stdout);
  };
  await run((path) => before.built(path), "150");
  await pause(7_000); // the lease of the killed process
  const texts = new Set(
    JSON.parse((await run((path) => join(REPOSITORY, "dist", path), "-1")) || "[]") as string[],
  );
  const right = Array.from({ length: 400 }, (_, at) => `text ${at}`).filter((text) => texts.has(text)).length;
  check(right === 400, "of 400 items that a store without a fleet had half done, answered", String(right));
}

const olds: OldVersion[] = [];
const made = (commit: string, name: string): OldVersion => {
  const old = new OldVersion(commit, name);
  olds.push(old);
  note(`${commit} is built`);
  return old;
};
const postgres = await PostgresServer.start();
try {
  if (given.before !== "") await beforeFleet(made(given.before, "before"), await postgres.freshUrl());
  if (given.old !== "") await upgrade(made(given.old, "old"), await postgres.freshUrl());
} finally {
  await postgres.remove();
  for (const old of olds) old.remove();
  rmSync(folder, { recursive: true, force: true });
}
process.stdout.write(table(steps));
for (const fault of faults) process.stdout.write(`WRONG: ${fault}\n`);
process.exitCode = faults.length === 0 ? 0 : 1;
