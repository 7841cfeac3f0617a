/**
 * One limit of requests, shared by processes with clocks of their own over a real PostgreSQL: what arrives at the provider in any 60 s.
 *
 *   all are ready --> all send --1/4 of the run--> one is killed, one is stopped for 4 to 20 s, the wall clock of one is set by up to 10 min --> the end: all are killed
 *
 * A process that is killed or stopped holds at most a block, so the others use what is left: both counts are of all arrivals. How much is used is the mean of
 * the windows that begin after a quarter of the run: that many processes need some seconds of two cores until all are at work, and where few requests leave
 * now, little is free a window later.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../../src/clock.ts";
import { FleetDatabase } from "../../../src/fleet/fleet_database.ts";

const WINDOW_MS = 60_000;
const SKEWED = fileURLToPath(new URL("../fleet_seeds/skewed_clock.mjs", import.meta.url));
const SKEW_MS_MAX = 600_000;
/** From one counted window to the next. */
const STEP_MS = 250;
/** The part of a run in which the processes start. */
const START = 0.25;

/** What a run was, and what it found. */
export interface LimitReport {
  readonly seed: number;
  /** Arrivals at the provider. */
  readonly sent: number;
  /** Arrivals in the fullest window, above 1 when the limit was broken. Parts of the limit. */
  readonly fullest: number;
  /** The same of the emptiest window after the start, and the mean of these windows. */
  readonly emptiest: number;
  readonly used: number;
  /** Arrivals in the whole run, as a part of what the limit allows in that time. */
  readonly usedWithStart: number;
  /** Items that arrived more than once. */
  readonly doubled: number;
  /** How late this process noticed an arrival, at most: so much may be moved into another window. */
  readonly lateMs: number;
  readonly faults: string;
}

export interface LimitTerms {
  /** An empty database. */
  readonly url: string;
  /** From `compiledProgram`. */
  readonly program: string;
  readonly processes: number;
  readonly perMinute: number;
  /** At least two windows. */
  readonly runMs: number;
  /** Without faults. */
  readonly isCalm: boolean;
}

/** Runs the processes, and ends them. */
export async function limitRun(seed: number, terms: LimitTerms): Promise<LimitReport> {
  const { url, program, processes, perMinute, runMs, isCalm } = terms;
  (await FleetDatabase.open(url, systemClock)).close();
  const folder = mkdtempSync(join(tmpdir(), "perigee-limits-"));
  const provider = await Provider.open();
  const children: ChildProcess[] = [];
  const random = randomOf(seed);
  try {
    const items = Math.ceil(((perMinute * runMs) / WINDOW_MS) * Math.min(2, 4 / processes)); // four times an even part
    for (let index = 0; index < processes; index += 1) {
      const dataDir = join(folder, `d${index}`);
      mkdirSync(dataDir);
      const words = [url, dataDir, provider.baseUrl, perMinute, index * items, items].map(String);
      const env = { ...process.env, PERIGEE_TEST_SKEW_FILE: join(folder, `skew${index}`) };
      const nodeWords = ["--import", SKEWED, program, ...words];
      children.push(spawn(process.execPath, nodeWords, { env, stdio: ["pipe", "pipe", "inherit"] }));
    }
    await Promise.all(children.map(({ stdout }) => stdout && once(stdout, "data")));
    for (const { stdin } of children) stdin?.write("go\n");
    await provider.first;
    const startedMs = provider.arrivedMs[0] ?? 0;
    const at = (share: number): Promise<void> => sleep(startedMs + share * runMs - performance.now());
    const faults = isCalm ? "no faults" : await disturb(children, { folder, random, at });
    await at(1);
    return { seed, ...figures(provider, perMinute, { startedMs, runMs }), faults };
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await Promise.all(children.map((child) => child.exitCode ?? child.signalCode ?? once(child, "exit")));
    provider.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Disturbance {
  /** Of the files with the clocks' errors. */
  readonly folder: string;
  readonly random: () => number;
  /** Waits until a part of the run is over. */
  readonly at: (share: number) => Promise<void>;
}

/** Returns what it did, in words. */
async function disturb(
  children: readonly ChildProcess[],
  { folder, random, at }: Disturbance,
): Promise<string> {
  const stopMs = 4_000 + random() * 16_000;
  const skewMs = Math.round((2 * random() - 1) * SKEW_MS_MAX);
  await at(START + random() / 4);
  writeFileSync(join(folder, `skew${children.length - 1}`), String(skewMs));
  children[0]?.kill("SIGKILL");
  await sleep(random() * 3_000);
  children[1]?.kill("SIGSTOP");
  await sleep(stopMs);
  children[1]?.kill("SIGCONT");
  return `stopped for ${(stopMs / 1_000).toFixed(1)} s, a clock set by ${(skewMs / 1_000).toFixed(0)} s`;
}

function figures(
  { arrivedMs, items, lag }: Provider,
  perMinute: number,
  { startedMs, runMs }: { readonly startedMs: number; readonly runMs: number },
): Omit<LimitReport, "seed" | "faults"> {
  const counts: number[] = [];
  let from = 0;
  for (const [to, ms] of arrivedMs.entries()) {
    while ((arrivedMs[from] ?? 0) <= ms - WINDOW_MS) from += 1;
    counts.push(to - from + 1);
  }
  const countIn = (fromMs: number, toMs: number): number =>
    arrivedMs.filter((ms) => ms >= fromMs && ms < toMs).length;
  const windows: number[] = [];
  for (let ms = startedMs + START * runMs; ms + WINDOW_MS <= startedMs + runMs; ms += STEP_MS)
    windows.push(countIn(ms, ms + WINDOW_MS) / perMinute);
  return {
    sent: arrivedMs.length,
    fullest: Math.max(...counts) / perMinute,
    emptiest: Math.min(...windows),
    used: windows.reduce((sum, part) => sum + part, 0) / windows.length,
    usedWithStart: countIn(startedMs, startedMs + runMs) / ((perMinute * runMs) / WINDOW_MS),
    doubled: arrivedMs.length - items.size,
    lateMs: lag.max / 1e6,
  };
}

/** Answers at once, and notes when each request was there. */
class Provider {
  readonly arrivedMs: number[] = [];
  readonly items = new Set<string>();
  readonly lag = monitorEventLoopDelay();
  readonly first: Promise<unknown>;
  readonly #server = createServer();

  private constructor() {
    this.first = once(this.#server, "request");
    this.lag.enable();
    this.#server.on("request", (request, response) => {
      this.arrivedMs.push(performance.now());
      let body = "";
      request.on("data", (chunk: Buffer) => {
        body += String(chunk);
      });
      request.on("end", () => {
        this.items.add(/\[\[(\d+)\]\]/.exec(body)?.[1] ?? "");
        const choices = [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }];
        const usage = { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 };
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify({ id: "1", object: "chat.completion", model: "small", choices, usage }));
      });
    });
  }

  static async open(): Promise<Provider> {
    const provider = new Provider();
    provider.#server.listen(0, "127.0.0.1");
    await once(provider.#server, "listening");
    return provider;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  close(): void {
    this.lag.disable();
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

/** Numerical Recipes' generator of 32 bits; 0 up to 1. */
function randomOf(seed: number): () => number {
  let state = Math.imul(seed, 2_654_435_761) >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
}
