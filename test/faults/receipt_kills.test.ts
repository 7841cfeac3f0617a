/** `perigee run --receipts` killed while it works: the same command ends with one receipt for each key, and a whole chain. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { KilledRuns, linesUpTo } from "./killed_run.ts";

const LINES = 60;
let runs: KilledRuns;

beforeEach(async () => {
  runs = new KilledRuns();
  await runs.listen();
});
afterEach(() => runs.close());

it("leaves one receipt for each key after three kills", { timeout: 120_000 }, async () => {
  runs.write(linesUpTo(LINES));
  const start = {
    options: ["--receipts", runs.path("receipts.jsonl"), "--sla", "60"],
    env: { PERIGEE_MAX_INFLIGHT: "4" },
  };
  for (let round = 0; round < 3; round += 1) await runs.kill(9, start);
  const last = runs.start(start);
  let stdout = "";
  last.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  await once(last, "close");
  const summary = JSON.parse(stdout) as { status: string; receipts: { count: number; hash: string } };
  expect(summary).toMatchObject({ status: "completed", receipts: { count: LINES } });
  const verify = [MAIN, "receipts", "verify", runs.path("receipts.jsonl"), "--json"];
  const verified: unknown = JSON.parse(execFileSync(process.execPath, verify, { encoding: "utf8" }));
  expect(verified).toMatchObject({ receipts: LINES, met: LINES, last_hash: summary.receipts.hash });
  const lines = readFileSync(runs.path("receipts.jsonl"), "utf8").split("\n").slice(0, -2);
  const receipts = lines.map((line) => JSON.parse(line) as { key: string; started_at: string | null });
  expect(receipts.map(({ key }) => key)).toEqual(runs.keys());
  expect(new Set(receipts.map(({ key }) => key)).size).toBe(LINES);
  expect(receipts.filter(({ started_at }) => started_at === null)).toEqual([]);
});
