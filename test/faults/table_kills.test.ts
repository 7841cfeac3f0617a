/**
 * `perigee run` over a table, killed while it makes the request lines, while it asks and while it joins the output: the same command ends
 * with each row once, and asks for nothing again that was answered.
 */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parse } from "csv-parse/sync";
import { afterEach, beforeEach, expect, it } from "vitest";
import { end, KilledRuns, linesUpTo } from "./killed_run.ts";

const ROWS = 200;
const IN_FLIGHT = 8;
/** Of each row, so that making the lines and the output takes a while. */
const TEXT = "some words, ".repeat(300);

let runs: KilledRuns;
beforeEach(async () => {
  runs = new KilledRuns();
  await runs.listen();
  writeFileSync(
    runs.path("rows.csv"),
    `n,text\n${linesUpTo(ROWS)
      .map((n) => `${n},"${TEXT}"\n`)
      .join("")}`,
  );
  writeFileSync(
    runs.path("prompt.md"),
    "---\nmodel: local:m1\nmax_output_tokens: 9\n---\n[[{{n}}]] {{text}}",
  );
});
afterEach(() => runs.close());

it("has each row once after kills in each step, and asks for no answered row again", async () => {
  const isConverting = (sinceMs: number): boolean => isWritten(/^requests-.*\.part$/, sinceMs);
  const isJoining = (sinceMs: number): boolean => isWritten(/^out\.csv\.part$/, sinceMs);
  const moments: readonly (readonly [
    step: string,
    isReached: (sinceMs: number) => boolean,
    delayMs: number,
  ])[] = [
    ["conversion", isConverting, 0],
    ["conversion", (sinceMs) => isWritten(/^requests-.*\.jsonl$/, sinceMs), 3],
    ["run", () => runs.asked.length >= 10, 13],
    ["run", () => runs.asked.length >= 110, 41],
    ["join", isJoining, 0],
    ["join", isJoining, 2],
    ["join", (sinceMs) => isWritten(/^out\.csv$/, sinceMs), 0],
  ];
  const steps: string[] = [];
  for (const [step, isReached, delayMs] of moments) {
    if (await killAt(isReached, delayMs)) steps.push(step);
    if (existsSync(out())) expectEachRow();
  }
  expect(new Set(steps)).toEqual(new Set(["conversion", "run", "join"]));
  expect((await endsWithoutAskingAgain()).code).toBe(0);
  expectEachRow();
  expect(new Set(runs.asked)).toEqual(new Set(linesUpTo(ROWS)));
  const kills = steps.filter((step) => step !== "join").length;
  expect(runs.asked.length).toBeLessThanOrEqual(ROWS + kills * IN_FLIGHT);
  const asked = runs.asked.length;
  expect((await end(start())).code).toBe(0);
  expect(runs.asked).toHaveLength(asked);
}, 120_000);

function start(): ReturnType<KilledRuns["start"]> {
  return runs.start({
    input: runs.path("rows.csv"),
    options: ["--prompt", runs.path("prompt.md"), "--out", out()],
    env: { PERIGEE_MAX_INFLIGHT: String(IN_FLIGHT) },
  });
}

/** Starts the command and kills it `delayMs` after the moment. Returns whether it was still at work. */
async function killAt(isReached: (sinceMs: number) => boolean, delayMs: number): Promise<boolean> {
  const answered = answeredRows();
  const before = runs.asked.length;
  const sinceMs = Date.now();
  const child = start();
  const ended = end(child);
  while (!isReached(sinceMs) && child.exitCode === null) await sleep(1);
  if (delayMs > 0) await sleep(delayMs);
  child.kill("SIGKILL");
  await ended;
  expectNoneOf(answered, runs.asked.slice(before));
  return child.signalCode === "SIGKILL";
}

async function endsWithoutAskingAgain(): ReturnType<typeof end> {
  const answered = answeredRows();
  const before = runs.asked.length;
  const ended = await end(start());
  expectNoneOf(answered, runs.asked.slice(before));
  return ended;
}

/** Rows whose answers are written. */
function answeredRows(): ReadonlySet<number> {
  const path = out(".perigee/answers.jsonl");
  const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
  return new Set(lines.map((line) => Number(/answer (\d+)/.exec(line)?.[1])));
}

function expectNoneOf(answered: ReadonlySet<number>, asked: readonly number[]): void {
  expect(asked.filter((row) => answered.has(row))).toEqual([]);
}

function expectEachRow(): void {
  const rows: unknown = parse(readFileSync(out()), { columns: true });
  expect(rows).toEqual(
    linesUpTo(ROWS).map((n) => ({ n: String(n), text: TEXT, output: `answer ${n}`, error: "" })),
  );
}

/** Whether the run's folders have a file with such a name, written since then: a kill leaves files as well. */
function isWritten(name: RegExp, sinceMs: number): boolean {
  const data = out(".perigee");
  return [runs.folder, data].some(
    (folder) =>
      existsSync(folder) &&
      readdirSync(folder).some((file) => name.test(file) && mtimeMsOf(join(folder, file)) >= sinceMs),
  );
}

function mtimeMsOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function out(end = ""): string {
  return `${runs.path("out.csv")}${end}`;
}
