/**
 * What all benches share: a part is measured by tinybench beside its rival or floor, in turn in one process; every figure goes
 * into one table under the machine that it was taken on.
 *
 * Machines are noisy: compare the ratios, not the figures of two days.
 */
import { appendFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { Bench } from "tinybench";

/** One figure, and the one beside it. */
export interface Row {
  readonly name: string;
  /** Of the rounds. */
  readonly median: number;
  /** `us/line`, `items/s`, ... */
  readonly unit: string;
  /** The rival, or the floor: what the work takes at the least. */
  readonly beside?: { readonly name: string; readonly median: number };
}

/** Work that is done `calls` times a round, and what it is compared with. */
export interface Part {
  /** What one call is: `line`, `item`, `request`. */
  readonly of: string;
  readonly name: string;
  /** Calls of `run` that one round makes, so that a round takes a millisecond or more. */
  readonly calls: number;
  readonly run: () => unknown;
  /** `calls`, of one round, where they differ. */
  readonly beside: { readonly name: string; readonly calls?: number; readonly run: () => unknown };
}

/** A bench of parts: what it needs is made first, and cleaned up at the end. */
export interface PartBench {
  readonly parts: readonly Part[];
  readonly close?: () => Promise<void> | void;
}

const ROUND_MS = 400;
/** The variable that names the file for a job's rows. */
export const ROWS_FILE = "BENCH_ROWS_FILE";

/** Medians of both, whose rounds follow each other. */
export async function measured({ parts, close }: PartBench): Promise<readonly Row[]> {
  const rows: Row[] = [];
  try {
    for (const part of parts) {
      const bench = new Bench({
        time: ROUND_MS,
        iterations: 8,
        warmupTime: ROUND_MS / 4,
        warmupIterations: 2,
        throws: true,
      });
      bench.add("own", async () => void (await part.run()));
      bench.add("beside", async () => void (await part.beside.run()));
      await bench.run();
      const calls = [part.calls, part.beside.calls ?? part.calls];
      const [own, beside] = bench.tasks.map((task, index) => medianUs(task.result, calls[index] ?? 1));
      if (own === undefined || beside === undefined) throw new Error(`${part.name} was not measured`);
      rows.push({
        name: part.name,
        median: own,
        unit: `us/${part.of}`,
        beside: { name: part.beside.name, median: beside },
      });
    }
  } finally {
    await close?.();
  }
  return rows;
}

function medianUs(result: Bench["tasks"][number]["result"], calls: number): number | undefined {
  return "latency" in result ? (result.latency.p50 * 1_000) / calls : undefined;
}

/** `2 x AMD EPYC, 24 GiB, Node 20.20.2, linux x64`. */
export function machine(): string {
  const processors = cpus();
  const gib = Math.round(totalmem() / 2 ** 30);
  const model = processors[0]?.model.trim() ?? "unknown processor";
  return `${processors.length} x ${model}, ${gib} GiB, Node ${process.versions.node}, ${process.platform} ${process.arch}`;
}

/** The rows as lines of one table; a ratio above 1 means that perigee's is the larger figure. */
export function table(rows: readonly Row[]): string {
  const cells = rows.map(({ name, median, unit, beside }) => [
    name,
    figure(median),
    unit,
    beside === undefined ? "" : (median / beside.median).toFixed(2),
    beside === undefined ? "" : `${beside.name} (${figure(beside.median)})`,
  ]);
  const head = ["bench", "median", "unit", "ratio", "beside"];
  const widths = head.map((title, column) =>
    Math.max(...[head, ...cells].map((row) => (row[column] ?? "").length), title.length),
  );
  return [head, ...cells]
    .map((row) =>
      row
        .map((cell, column) => pad(cell, column, widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function pad(cell: string, column: number, width: number): string {
  return column === 1 || column === 3 ? cell.padStart(width) : cell.padEnd(width);
}

/** Three digits that count. */
function figure(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value >= 10 ? value.toFixed(1) : value >= 1 ? value.toFixed(2) : value.toFixed(3);
}

/** For a job's program: its figures as a table, or, started by `bench.ts`, for that one's. */
export function report(rows: readonly Row[]): void {
  const path = process.env[ROWS_FILE];
  if (path === undefined) console.log(`${machine()}\n\n${table(rows)}`);
  else appendFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}
