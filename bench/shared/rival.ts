/** One rival (bench/rivals) as a process of its own, and whether its output is whole. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Usage, usageOf } from "./main_job.ts";

export interface RivalOptions {
  readonly input: string;
  readonly output: string;
  readonly baseUrl: string;
  readonly inFlight: number;
  readonly redisPort?: number;
}

/** From the start of the process to its exit; what it used is read until it ends. */
export async function runRival(
  name: string,
  options: RivalOptions,
): Promise<{ elapsedMs: number; usage: Usage }> {
  const started = performance.now();
  const program = join(import.meta.dirname, "../rivals/start.mjs");
  const child = spawn(process.execPath, [program, name, JSON.stringify(options)], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  let usage: Usage = { cpuUs: 0, peakKb: 0 };
  let exit: number | null | undefined;
  child.on("exit", (code) => {
    exit = code;
  });
  while (exit === undefined) {
    try {
      usage = usageOf(child.pid ?? 0);
    } catch {
      // it ended between the two looks
    }
    await sleep(25);
  }
  const elapsedMs = performance.now() - started;
  if (exit !== 0) throw new Error(`${name} ended with ${exit}`);
  return { elapsedMs, usage };
}

/** One answer for each key, or this figure is not valid. */
export function checkOutput(path: string, lines: number): void {
  const keys = new Set<string>();
  const written = readFileSync(path, "utf8").trimEnd().split("\n");
  for (const line of written) {
    const answer = JSON.parse(line) as { key: string; output: { text: string } };
    if (!answer.output.text.includes(answer.key)) throw new Error(`${answer.key} has the answer of another`);
    keys.add(answer.key);
  }
  if (keys.size !== lines || written.length !== lines) {
    throw new Error(`${written.length} lines and ${keys.size} keys for ${lines} requests`);
  }
}
