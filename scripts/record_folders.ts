/**
 * Makes the data folders in `test/fixtures/folders` that later versions must open and finish:
 * `npm run build && node --import tsx scripts/record_folders.ts NAME`
 *
 * NAME is the commit that is checked out. Each folder is that of a process killed (SIGKILL) while half of its work is open:
 *
 *   NAME-run       `perigee run`: lines answered, failed, in flight and not yet sent
 *   NAME-library   `engine.submit`: two lists, one of them answered
 *   NAME-service   `perigee serve`: a finished task, open posted ones, one of a file, a batch, executions that are done, in flight, waiting
 *                  and cancelled, a run of a cluster, a secret, and deliveries that are made and that wait
 *
 * What the world had seen by then is recorded with them (test/faults/recorded_world.ts).
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createKey, urlOf } from "../test/faults/killed_service.ts";
import {
  packFolder,
  RecordedWorld,
  type Recording,
  until,
  WORLD_ENV,
  WORLD_URL,
} from "../test/faults/recorded_world.ts";

const MAIN = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const LIBRARY = new URL("../dist/index.js", import.meta.url).href;
const FOLDERS = fileURLToPath(new URL("../test/fixtures/folders/", import.meta.url));
const MODEL = "openai:gpt-4o-mini";
const IN_FLIGHT = Number(WORLD_ENV.PERIGEE_MAX_INFLIGHT);
const SATELLITES = "/v1/satellites/perigee/call-webhook/";

const name = process.argv[2];
if (name === undefined) throw new Error("usage: record_folders.ts NAME");
const root = mkdtempSync(join(tmpdir(), "perigee-record-"));
const env = { PATH: process.env["PATH"], XDG_STATE_HOME: join(root, "state"), ...WORLD_ENV };
const world = new RecordedWorld();

/** Answers so many prompts, and holds the others; what else arrives is answered by its path. */
function answerOnly(prompts: number): void {
  world.arrivals.length = 0;
  let answers = 0;
  world.treat = ({ path, prompt }) => {
    if (path.includes("/hold")) return "hold";
    if (path.includes("/unavailable")) return "unavailable";
    if (prompt === undefined) return "answer";
    answers += 1;
    if (answers > prompts) return "hold";
    return prompt.includes("refused") ? "refuse" : "answer";
  };
}

const held = (): number =>
  world.arrivals.filter((arrival) => arrival.prompt !== undefined && arrival.treatment === "hold").length;

function start(words: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, words, { env, stdio: ["ignore", "pipe", "ignore"] });
  process.once("exit", () => child.kill("SIGKILL"));
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill("SIGKILL");
  await once(child, "exit");
}

function write(suffix: string, folder: string, shown: Recording["shown"]): void {
  const recording = { recordedAtMs: Date.now(), arrivals: world.arrivals, shown };
  const bytes = packFolder(folder, recording);
  writeFileSync(join(FOLDERS, `${name}-${suffix}.json.gz`), bytes);
  process.stdout.write(`${suffix}: ${bytes.length} bytes, ${world.arrivals.length} arrivals\n`);
}

const lineOf = (key: string, text: string): string =>
  JSON.stringify({ key, request: { model: MODEL, contents: [{ parts: [{ text }] }] } });

async function recordRun(): Promise<void> {
  const folder = join(root, "run");
  mkdirSync(folder);
  const numbers = Array.from({ length: 40 }, (_, index) => index + 1);
  const lines = numbers.map((number) =>
    lineOf(`k${number}`, number === 3 ? "refused" : `Frage ${number} 何`),
  );
  writeFileSync(join(folder, "in.jsonl"), `${lines.join("\n")}\nnot a line\n`);
  answerOnly(20);
  const out = join(folder, "out.jsonl");
  const child = start([MAIN, "run", join(folder, "in.jsonl"), "--out", out]);
  const written = () => (existsSync(out) ? readFileSync(out, "utf8").split("\n").length - 1 : 0);
  await until(() => written() === 21 && held() === IN_FLIGHT, "a run in its middle");
  await kill(child);
  write("run", folder, { lines: readFileSync(out, "utf8") });
}

async function recordLibrary(): Promise<void> {
  const folder = join(root, "library");
  mkdirSync(folder);
  writeFileSync(
    join(root, "submit.mjs"),
    `import { createEngine } from ${JSON.stringify(LIBRARY)};
    const engine = await createEngine({ dataDir: ${JSON.stringify(join(folder, "data"))} });
    const list = (name, length, sla) => Array.from({ length }, (_, i) => ({ model: ${JSON.stringify(MODEL)}, input: name + " " + i, sla }));
    const done = await engine.submit(list("done", 5, 60)).finished;
    const open = await engine.submit([...list("soon", 12, 60), ...list("late", 12, 600)]);
    process.stdout.write(JSON.stringify({ done, open }) + "\\n");`,
  );
  answerOnly(11);
  const child = start([join(root, "submit.mjs")]);
  let told = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    told += text;
  });
  await until(() => told.endsWith("\n") && held() === IN_FLIGHT, "a list in its middle");
  await kill(child);
  write("library", folder, JSON.parse(told) as Recording["shown"]);
}

interface Called {
  readonly task_id: string;
  readonly status: string;
  readonly counts: { readonly completed: number };
  readonly execution_id: string;
  readonly file_id: string;
  readonly id: string;
  readonly cluster_id: string;
}

type Call = (method: string, path: string, body?: object) => Promise<Called>;

async function recordService(): Promise<void> {
  const folder = join(root, "service");
  const key = await createKey(folder, { isBeta: true });
  answerOnly(12);
  const treat = world.treat;
  let deliveries = 0;
  world.treat = (arrival) => {
    if (!arrival.path.startsWith("/hook")) return treat(arrival);
    deliveries += 1;
    return deliveries === 1 ? "answer" : "unavailable";
  };
  const child = start([MAIN, "serve", "--port", "0", "--data", folder]);
  const call = caller(await urlOf(child), key);
  const hook = await call("POST", "/v0/webhooks", { url: `${WORLD_URL}/hook`, events: ["task.completed"] });
  const executions = await startExecutions(call);
  const items = (group: string, length: number, sla = 60): object[] =>
    Array.from({ length }, (_, index) => ({ model: MODEL, input: `${group} ${index}`, sla }));
  const post = async (list: readonly object[]): Promise<string> =>
    (await call("POST", "/v0/infer/", list)).task_id;
  const seen = (id: string): Promise<Called> => call("GET", `/v0/infer/task/${id}`);

  const done = await post(items("done", 3));
  await until(
    async () => (await seen(done)).status === "completed" && deliveries === 1,
    "the first delivery",
  );
  const alsoDone = await post(items("also", 3));
  await until(
    async () => (await seen(alsoDone)).status === "completed" && deliveries === 2,
    "the second one",
  );
  const many = await post(items("many", 14));
  await until(
    async () => held() === IN_FLIGHT && (await seen(many)).counts.completed === 6,
    "a task in its middle",
  );
  const later = await post([...items("later", 3), ...items("much later", 3, 1_440)]);
  const lines = [lineOf("one", "of a file 1"), lineOf("two", "of a file 2"), "not a line"];
  const ofFile = await post([{ file_id: await upload(call, "lines.jsonl", lines), sla: 120 }]);
  const batch = await startBatch(call);
  const cluster = await startCluster(call);
  const tasks = { done, alsoDone, many, later, ofFile };
  const shown: Record<string, unknown> = { key, hook: hook.id, executions, tasks, batch, cluster };
  for (const [task, id] of Object.entries(tasks)) shown[`task ${task}`] = await seen(id);
  shown["execution done"] = await call("GET", `${SATELLITES}${executions.done}/`);
  await kill(child);
  write("service", folder, shown);
}

function caller(url: string, key: string): Call {
  return async (method, path, body) => {
    const isJson = body !== undefined && !(body instanceof FormData);
    const isBare = /^\/v1\/(satellites|clusters|secrets)/.test(path);
    const answer = await fetch(url + path, {
      method,
      headers: {
        authorization: isBare ? key : `Bearer ${key}`,
        ...(isJson ? { "content-type": "application/json" } : {}),
      },
      ...(body === undefined ? {} : { body: isJson ? JSON.stringify(body) : (body as FormData) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return (text === "" ? {} : JSON.parse(text)) as Called;
  };
}

async function startExecutions(call: Call) {
  await call("PUT", "/v1/secrets/token", { value: "the secret value" });
  const begin = async (path: string, method: string, more: object = {}): Promise<string> => {
    const config = { url: WORLD_URL + path, method, ...more };
    return (await call("POST", SATELLITES, { input: {}, config, sla: "2h" })).execution_id;
  };
  const executions = {
    done: await begin("/exec/done", "PUT", { headers: { authorization: "secret://token" } }),
    unavailable: await begin("/exec/unavailable", "PUT"),
    heldRepeatable: await begin("/exec/hold-put", "PUT"),
    heldOnce: await begin("/exec/hold-post", "POST"),
    cancelled: await begin("/exec/unavailable-cancelled", "PUT"),
  };
  await until(() => world.arrivals.length >= 5, "five calls");
  await call("POST", `${SATELLITES}${executions.cancelled}/cancel/`);
  return executions;
}

async function upload(call: Call, file: string, lines: readonly string[]): Promise<string> {
  const form = new FormData();
  form.set("file", new Blob([`${lines.join("\n")}\n`]), file);
  return (await call("PUT", `/v0/files/${file}`, form)).file_id;
}

async function startBatch(call: Call): Promise<string> {
  const lines = [1, 2, 3].map((number) =>
    JSON.stringify({
      custom_id: `c${number}`,
      method: "POST",
      url: "/v1/chat/completions",
      body: { model: MODEL, messages: [{ role: "user", content: `of a batch ${number}` }] },
    }),
  );
  const file = await upload(call, "batch.jsonl", lines);
  const { id } = await call("POST", "/v1/batches", {
    input_file_id: `file-${file.replaceAll("-", "")}`,
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
  });
  return id;
}

/** Its second member is in flight at the end. */
async function startCluster(call: Call): Promise<string> {
  const member = (path: string) => ({
    uses: "satellite/perigee/call-webhook",
    config: { url: WORLD_URL + path, method: "PUT" },
  });
  const satellites = [
    { identifier: "first", ...member("/exec/first") },
    { identifier: "second", needs: ["first"], ...member("/exec/hold-second") },
    { identifier: "third", needs: ["second"], ...member("/exec/third") },
  ];
  const declaration = { sla: "2h", cluster: { satellites } };
  const { cluster_id: id } = await call("POST", "/v1/clusters/", { declaration });
  await until(() => world.arrivals.some(({ path }) => path === "/exec/hold-second"), "the second member");
  return id;
}

await world.listen();
mkdirSync(FOLDERS, { recursive: true });
if (spawnSync(process.execPath, [MAIN, "--version"]).status !== 0) throw new Error("build first");
await recordRun();
await recordLibrary();
await recordService();
world.close();
rmSync(root, { recursive: true, force: true });
