/**
 * `npm run bench [NAME ...] [-- OPTIONS]`: the parts of the hot path, or the named parts and jobs, in one table.
 *
 *   npm run bench                 all parts: read, count, pack, order, admit, encode, decode, commit, write, plan
 *   npm run bench -- decode plan  two of them
 *   npm run bench -- engine       a job as a whole process (bench/jobs); options follow its name
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { machine, measured, type PartBench, ROWS_FILE, type Row, table } from "./shared/harness.ts";

const PARTS = ["read", "count", "pack", "order", "admit", "encode", "decode", "commit", "write", "plan"];
const JOBS = readdirSync(join(import.meta.dirname, "jobs"))
  .filter((file) => file.endsWith(".ts"))
  .map((file) => file.slice(0, -".ts".length));

const given = process.argv.slice(2);
const at = given.findIndex((name) => JOBS.includes(name));
const names = given.length === 0 ? PARTS : at < 0 ? given : given.slice(0, at);
const unknown = names.find((name) => !PARTS.includes(name));
if (unknown !== undefined)
  throw new Error(`no bench is called ${unknown}; there are ${[...PARTS, ...JOBS].join(", ")}`);

const rows: Row[] = [];
for (const name of names) rows.push(...(await part(name)));
if (at >= 0) rows.push(...(await job(given[at] ?? "", given.slice(at + 1))));
if (rows.length > 0) console.log(`${machine()}\n\n${table(rows)}`);

async function part(name: string): Promise<readonly Row[]> {
  const { open } = (await import(`./parts/${name}.ts`)) as { open(): Promise<PartBench> | PartBench };
  return measured(await open());
}

/** What it prints itself is shown as it comes; its rows are the table's. */
async function job(name: string, options: readonly string[]): Promise<readonly Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "perigee-bench-"));
  const file = join(folder, "rows.jsonl");
  writeFileSync(file, "");
  try {
    const child = spawn(
      process.execPath,
      ["--import", "tsx", join(import.meta.dirname, "jobs", `${name}.ts`), ...options],
      { stdio: "inherit", env: { ...process.env, [ROWS_FILE]: file } },
    );
    const code = await new Promise<number | null>((resolve) => child.on("exit", resolve));
    if (code !== 0) throw new Error(`${name} ended with code ${code}`);
    const lines = readFileSync(file, "utf8").split("\n").filter(Boolean);
    return lines.map((line) => JSON.parse(line) as Row);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
