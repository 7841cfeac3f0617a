/**
 * The five figures of the work log (docs/decisions/0022-work-log.md): `npm run bench -- work_log [folder]`
 *
 * 1. 5,000 posts of one item a second, as they come, each answered after 50 ms: how long until they are accepted [p99 20 ms].
 * 2. Lines to a file, 512 in flight, 50 ms each, 10,240 a second possible [9,000 a second].
 * 3. Restart with a million open tasks of one item, after a kill [5 s].
 * 4. Restart with a thousand open, after 20,000 and after a million others, after a kill [as long].
 * 5. Erasure of a task beside posts: how long, and which files of the folder hold a byte of its texts [none].
 *
 * Each runs in a process of its own.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../src/clock.ts";
import { systemDisk } from "../../src/disk.ts";
import type { FieldsOf, OutcomeFields } from "../../src/log/records.ts";
import { openWorkLog, type WorkLog } from "../../src/log/work_log.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { newId } from "../../src/work/new_id.ts";

const SELF = fileURLToPath(import.meta.url);
const SECONDS = 10;
const POSTS_A_SECOND = 5_000;
const LINES = 60_000;
const IN_FLIGHT = 512;
const ANSWER_MS = 50;
const BATCH = 4_096;
const request = Buffer.from(JSON.stringify({ model: "openai:gpt-test", input: "x".repeat(450) }));
const answer = Buffer.from(
  `${JSON.stringify({ key: "k", output: { type: "text", text: "y".repeat(550) } })}\n`,
);

const sleep = (ms: number): Promise<void> => systemClock.sleep(ms);
const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};
const at = (latencies: number[], share: number): string =>
  (latencies.sort((one, other) => one - other)[Math.floor(latencies.length * share)] ?? 0).toFixed(1);
const seconds = (sinceMs: number): string => ((performance.now() - sinceMs) / 1_000).toFixed(2);

function accept(log: WorkLog, text: Uint8Array = request): ReturnType<WorkLog["accept"]> {
  const createdWallMs = Date.now();
  const deadlineMs = createdWallMs + 6e7;
  return log.accept({
    id: newId(),
    project: "default",
    kind: 1,
    items: 1,
    deadlineMs,
    createdWallMs,
    body: "{}",
    request: text,
  });
}

/** As an engine makes it, in one literal. */
function intentOf(task: number, item: number): FieldsOf<"intent"> {
  return {
    task,
    item,
    attempt: 1,
    lane: 1,
    inputTokens: 120,
    outputTokens: 500,
    mostUsd: 0.0015,
    offset: item * 500,
    lengthBytes: 500,
  };
}

function outcomeOf(task: number, item: number): OutcomeFields {
  return {
    task,
    item,
    status: "completed",
    code: 0,
    attempts: 1,
    ambiguousAttempts: 0,
    isEstimated: 0,
    price: 1,
    inputTokens: 120,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 90,
    reasoningTokens: 0,
    listUsd: 0.0012,
    usd: 0.0011,
    billedUsd: 0.0012,
    ambiguousUsd: 0,
  };
}

/** Opens the log of a folder; the second function ends both. */
async function opened(dataDir: string): Promise<[WorkLog, () => Promise<void>]> {
  const store = await openSqliteStore({ dataDir });
  const log = await openWorkLog({ store, clock: systemClock });
  const end = async (): Promise<void> => {
    await log.close();
    await store.close();
  };
  return [log, end];
}

async function posts(dataDir: string): Promise<void> {
  const [log, end] = await opened(dataDir);
  const latencies: number[] = [];
  let [sent, done] = [0, 0];
  const [beganCpuMs, beganMs] = [cpuMs(), performance.now()];
  const post = async (): Promise<void> => {
    const startMs = performance.now();
    const { task, durable } = accept(log);
    await durable;
    latencies.push(performance.now() - startMs);
    await log.intend(intentOf(task, 0));
    await sleep(ANSWER_MS);
    await log.end(outcomeOf(task, 0), answer);
    done += 1;
  };
  for (; performance.now() - beganMs < SECONDS * 1_000; await sleep(1))
    for (const due = ((performance.now() - beganMs) / 1_000) * POSTS_A_SECOND; sent < due; sent += 1)
      void post();
  while (done < sent) await sleep(5);
  const us = ((cpuMs() - beganCpuMs) * 1_000) / sent;
  console.log(
    `posts: ${(sent / SECONDS).toFixed(0)} a second, accepted p50 ${at(latencies, 0.5)} p99 ${at(latencies, 0.99)} ms; ` +
      `all answered after ${seconds(beganMs)} s; ${us.toFixed(0)} us of CPU a post; log ${mb(log.logBytes)} MB`,
  );
  await end();
}

async function lines(dataDir: string): Promise<void> {
  const [log, end] = await opened(dataDir);
  const file = await systemDisk.open(join(dataDir, "out.jsonl"), "write");
  const { task, durable } = log.accept({
    id: newId(),
    project: "p",
    kind: 2,
    items: LINES,
    createdWallMs: 1,
    body: "{}",
  });
  await durable;
  log.openOutput(task, file);
  let next = 0;
  const [beganCpuMs, beganMs] = [cpuMs(), performance.now()];
  // The place goes on when the outcome is staged (docs/decisions/0009).
  const place = async (): Promise<void> => {
    while (next < LINES) {
      const item = next;
      next += 1;
      await log.intend(intentOf(task, item));
      await sleep(ANSWER_MS);
      void log.end(outcomeOf(task, item), answer);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, place));
  const tookS = (performance.now() - beganMs) / 1_000;
  const us = ((cpuMs() - beganCpuMs) * 1_000) / LINES;
  console.log(
    `lines: ${(LINES / tookS).toFixed(0)} a second of ${(IN_FLIGHT * 1_000) / ANSWER_MS} possible; ${us.toFixed(1)} us of CPU a line`,
  );
  await log.closeOutput(task);
  await file.close();
  await end();
}

/** Ends by a kill. */
async function fill(dataDir: string, open: number, history: number): Promise<void> {
  const [log] = await opened(dataDir);
  const batch = async (count: number, one: () => Promise<void>): Promise<void> => {
    for (let left = count; left > 0; left -= BATCH)
      await Promise.all(Array.from({ length: Math.min(left, BATCH) }, one));
  };
  await batch(open, () => accept(log).durable);
  const began: number[] = [];
  await batch(history, async () => {
    const { task, durable } = accept(log);
    void log.intend(intentOf(task, 0));
    began.push(task);
    await durable;
    await log.end(outcomeOf(task, 0), answer);
  });
  console.log(
    `  filled with ${open} open and ${began.length} others: log ${mb(log.logBytes)} MB, folder ${mb(bytesIn(dataDir))} MB`,
  );
  process.kill(process.pid, "SIGKILL");
}

async function restart(dataDir: string): Promise<void> {
  const beganMs = performance.now();
  const [log, end] = await opened(dataDir);
  const readS = seconds(beganMs);
  const deadlines: number[] = [];
  for (const { deadlineMs } of log.openTasks()) deadlines.push(deadlineMs);
  Float64Array.from(deadlines).sort();
  const rss = mb(process.memoryUsage.rss());
  console.log(
    `restart: ${deadlines.length} open, read in ${readS} s, in order after ${seconds(beganMs)} s; ${rss} MB`,
  );
  await end();
}

async function erase(dataDir: string): Promise<void> {
  const [log, end] = await opened(dataDir);
  const mark = `CANARY${randomBytes(12).toString("hex")}`;
  const latencies: number[] = [];
  let isOver = false;
  const noise = async (): Promise<void> => {
    while (!isOver) {
      const startMs = performance.now();
      const { task, durable } = accept(log);
      await durable;
      latencies.push(performance.now() - startMs);
      await log.end(outcomeOf(task, 0), answer);
    }
  };
  const others = Array.from({ length: 64 }, noise);
  await sleep(1_000);
  const { task, durable } = accept(log, Buffer.from(mark + "x".repeat(20_000)));
  await durable;
  await log.end(outcomeOf(task, 0), Buffer.from(`${mark} answer`));
  await sleep(1_000);
  const startMs = performance.now();
  await log.erase({ texts: [task] });
  const tookMs = performance.now() - startMs;
  const found = readdirSync(dataDir).filter((name) => readFileSync(join(dataDir, name)).includes(mark));
  isOver = true;
  await Promise.all(others);
  console.log(
    `erasure: ${tookMs.toFixed(1)} ms beside ${(latencies.length / 2).toFixed(0)} posts a second (p99 ${at(latencies, 0.99)} ms); found in [${found}]`,
  );
  await end();
}

function mb(bytes: number): string {
  return (bytes / 1e6).toFixed(0);
}

function bytesIn(folder: string): number {
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

/** Runs one part in a process of its own, in a folder that it may find filled. */
function run(part: string, dataDir: string, ...counts: number[]): void {
  const given = ["--import", "tsx", SELF, part, dataDir, ...counts.map(String)];
  if (part === "fill") spawnSync(process.execPath, given, { stdio: "inherit" });
  else execFileSync(process.execPath, given, { stdio: "inherit" });
}

const [part, folder, ...counts] = process.argv.slice(2);
if (folder !== undefined && part === "posts") await posts(folder);
else if (folder !== undefined && part === "lines") await lines(folder);
else if (folder !== undefined && part === "fill") await fill(folder, Number(counts[0]), Number(counts[1]));
else if (folder !== undefined && part === "restart") await restart(folder);
else if (folder !== undefined && part === "erase") await erase(folder);
else {
  const within = (work: (dataDir: string) => void): void => {
    const dataDir = mkdtempSync(join(part ?? tmpdir(), "perigee-bench-"));
    try {
      work(dataDir);
    } finally {
      rmSync(dataDir, { recursive: true, force: true });
    }
  };
  for (const name of ["posts", "lines", "erase"]) within((dataDir) => run(name, dataDir));
  for (const [open, history] of [
    [1_000_000, 0],
    [1_000, 20_000],
    [1_000, 1_000_000],
  ] as const)
    within((dataDir) => {
      run("fill", dataDir, open, history);
      run("restart", dataDir);
    });
}
