/**
 * The pass over all keys before anything is sent, at ten million lines, in the process that a user starts.
 *
 *   npm run build
 *   npm run bench -- duplicates [--lines 10000000] [--rounds 1]
 *
 * Lines have 100 bytes. First all keys differ: the pass ends with the first request, which comes to a server in this
 * process. Then a line is appended that repeats the first key: the pass ends with the refusal. Prints one line of JSON
 * for each: milliseconds from the start of the process, its CPU so far, and its peak resident memory. Needs 100 bytes a
 * line in the temporary folder; it is removed at the end.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Usage, usageOf } from "../shared/main_job.ts";

const { values } = parseArgs({
  options: { lines: { type: "string", default: "10000000" }, rounds: { type: "string", default: "1" } },
});
const LINE_BYTES = 100;
const WRITTEN_LINES = 10_000;

interface Ended {
  readonly by: "request" | "exit";
  readonly exit: number | null;
  readonly told: string;
  readonly elapsedMs: number;
  readonly usage: Usage;
}

function lineOf(line: number): string {
  const head = `{"key":"key-${line}","request":{"model":"openai:gpt-4o-mini","contents":[{"parts":[{"text":"`;
  const tail = '"}]}]}}\n';
  return `${head}${"x".repeat(Math.max(1, LINE_BYTES - head.length - tail.length))}${tail}`;
}

async function writeLines(path: string, lines: number): Promise<void> {
  const file = await open(path, "w");
  for (let line = 0; line < lines; line += WRITTEN_LINES) {
    const count = Math.min(WRITTEN_LINES, lines - line);
    await file.write(Array.from({ length: count }, (_, index) => lineOf(line + index)).join(""));
  }
  await file.close();
}

/** Until the process sends its first request or ends by itself. */
async function keyPass(input: string, out: string): Promise<Ended> {
  let isAsked = false;
  // It never answers: what comes after the first request is not measured here.
  const server = createServer(() => {
    isAsked = true;
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const started = performance.now();
  const child = spawn(process.execPath, ["dist/cli/main.js", "run", input, "--out", out], {
    stdio: ["ignore", "ignore", "pipe"],
    env: {
      ...process.env,
      PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/v1`,
      PERIGEE_PROVIDER_OPENAI_KEY: "bench",
    },
  });
  let told = "";
  child.stderr.on("data", (chunk: Buffer) => {
    told += chunk.toString();
  });
  const exited = once(child, "exit") as Promise<[number | null]>;
  let usage: Usage = { cpuUs: 0, peakKb: 0 };
  while (!isAsked && child.exitCode === null) {
    try {
      usage = usageOf(child.pid ?? 0);
    } catch {
      // it ended between the two looks
    }
    await sleep(5);
  }
  const elapsedMs = performance.now() - started;
  child.kill("SIGKILL");
  const [exit] = await exited;
  server.closeAllConnections();
  server.close();
  return { by: isAsked ? "request" : "exit", exit, told, elapsedMs, usage };
}

function report(what: string, lines: number, bytes: number, { elapsedMs, usage, ...ended }: Ended): void {
  console.log(
    JSON.stringify({
      what,
      lines,
      mb: Math.round(bytes / 1e6),
      endedBy: ended.by === "request" ? "first request" : `exit ${ended.exit}`,
      told: ended.told.split("\n").find((line) => line.includes("same key")),
      elapsedMs: Math.round(elapsedMs),
      cpuMs: Math.round(usage.cpuUs / 1_000),
      peakMb: Math.round(usage.peakKb / 1_024),
    }),
  );
}

const lines = Number(values.lines);
const dir = mkdtempSync(join(tmpdir(), "perigee-bench-keys-"));
try {
  const input = join(dir, "in.jsonl");
  for (let round = 0; round < Number(values.rounds); round += 1) {
    await writeLines(input, lines);
    const unique = await keyPass(input, join(dir, `unique-${round}.jsonl`));
    report("all keys differ", lines, statSync(input).size, unique);
    const file = await open(input, "a");
    await file.write(lineOf(0));
    await file.close();
    const repeated = await keyPass(input, join(dir, `repeated-${round}.jsonl`));
    report("the last line repeats the first key", lines + 1, statSync(input).size, repeated);
  }
} finally {
  rmSync(dir, { recursive: true, force: true });
}
