/**
 * Checks what is promised of lanes, and prints a table with the seeds of each row:
 *
 *   npm run lanes:check -- [--minutes 9.5] [--row TEXT]
 *
 * Rows run two at a time, each in a process of its own; `--minutes` is the time of all, of which each row has its part. What a row does not
 * get done by then it leaves out, and says how much it did. `--row` runs those whose names begin so. Exits with 1 when a row fails.
 *
 *   parent -> one child a row -> one message -> parent
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Row, RowResult } from "../test/lanes_check/row.ts";
import { ROWS } from "../test/lanes_check/rows.ts";

/** A row's result, or what kept it from one. */
interface Checked extends RowResult {
  readonly row: Row;
  readonly seconds: number;
}

const JOBS = 2;
const MINUTES = 9.5;
const NODE_OPTIONS = ["--max-semi-space-size=64", "--import", "tsx"];

async function child(index: number, untilMs: number): Promise<void> {
  const row = ROWS[index];
  if (row === undefined) throw new Error(`there is no row ${index}`);
  const result = await row.run({ trials: row.trials, isOver: () => performance.now() >= untilMs });
  process.send?.(result);
  process.disconnect?.();
}

/** Milliseconds that each row has. */
function timesOf(rows: readonly Row[], minutes: number): ReadonlyMap<Row, number> {
  const weights = rows.reduce((sum, { weight }) => sum + weight, 0);
  return new Map(rows.map((row) => [row, (JOBS * minutes * 60_000 * row.weight) / Math.max(1, weights)]));
}

function checked(row: Row, forMs: number): Promise<Checked> {
  const fromMs = performance.now();
  const seconds = (): number => Math.round((performance.now() - fromMs) / 1_000);
  return new Promise((resolve) => {
    const words = [String(ROWS.indexOf(row)), String(forMs)];
    const process_ = fork(fileURLToPath(import.meta.url), words, { execArgv: NODE_OPTIONS });
    let result: RowResult | undefined;
    process_.on("message", (message) => {
      result = message as RowResult; // `child` sends nothing else
    });
    process_.on("exit", (code) => {
      const ended = { faults: [`the row ended with code ${code}`], figures: "none", seeds: "unknown" };
      resolve({ ...(result ?? ended), row, seconds: seconds() });
    });
  });
}

function report({ row, faults, figures, seeds, seconds }: Checked): void {
  const mark = faults.length === 0 ? "ok  " : "FAIL";
  console.log(
    `${mark} ${row.name}\n     passes at  ${row.passesAt}\n     measured   ${figures}\n     seeds      ${seeds}   ${seconds} s`,
  );
  for (const fault of faults.slice(0, 10)) console.log(`     ${fault}`);
}

async function parent(): Promise<void> {
  const { values } = parseArgs({ options: { minutes: { type: "string" }, row: { type: "string" } } });
  const minutes = Number(values.minutes ?? MINUTES);
  if (!(minutes > 0)) throw new Error("--minutes must be a number above 0");
  const rows = ROWS.filter(({ name }) => name.startsWith(values.row ?? ""));
  const times = timesOf(rows, minutes);
  // The longest first: then both jobs end at about the same time.
  const waiting = rows.toSorted((one, other) => other.weight - one.weight);
  const done: Checked[] = [];
  const work = async (): Promise<void> => {
    for (let row = waiting.shift(); row !== undefined; row = waiting.shift())
      done.push(await checked(row, times.get(row) ?? 0));
  };
  await Promise.all(Array.from({ length: JOBS }, work));
  for (const row of rows) {
    const result = done.find((each) => each.row === row);
    if (result !== undefined) report(result);
  }
  const failed = done.filter(({ faults }) => faults.length > 0).length;
  console.log(`\n${done.length - failed} of ${done.length} rows pass`);
  process.exitCode = failed === 0 ? 0 : 1;
}

const [index, forMs] = process.argv.slice(2);
if (process.send === undefined) await parent();
else await child(Number(index), performance.now() + Number(forMs));
