/**
 * Runs simulations on all cores and says which laws are broken:
 *
 *   npm run simulate -- --seeds 10000 [--from S] [--minutes M] [--jobs N] [--dist] [--trace] [--hashes]
 *
 * Seeds from 2,100,000,000 on, where it begins by default, draw from all features. Prints seeds a second and a table of the pairs of features that met; of each failure the seed, the commit, the law and
 * the command that replays it. Exits with 1 when a law was broken. `--dist` runs what `npm run build` made instead of the
 * sources, `--trace` prints what happened, `--hashes` a line with each seed and the hash of its trace: it is the same
 * whichever way it is loaded.
 *
 *   parent -> children with a share of the seeds each -> a message for each seed -> parent
 */
import { type ChildProcess, execFileSync, fork } from "node:child_process";
import { register } from "node:module";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ALL_DRAWN_FROM, type Feature, PairTable } from "../test/simulation/features.ts";
import type { SimulationResult } from "../test/simulation/simulate.ts";

/** The work of a child process, as JSON in its first argument. */
interface Share {
  readonly from: number;
  readonly count: number;
  readonly step: number;
  readonly untilMs: number | undefined;
  readonly isDist: boolean;
  readonly isTraced: boolean;
}

type Message =
  | { readonly kind: "begun"; readonly seed: number }
  | {
      readonly kind: "ended";
      readonly seed: number;
      readonly violations: readonly string[];
      readonly met: readonly Feature[];
      readonly traceHash: string;
      readonly items: number;
      readonly trace: readonly string[];
    }
  | { readonly kind: "spent"; readonly cpuMs: number };

/** `src/engine/runs/run.ts` becomes `dist/engine/runs/run.js` for all that is imported from here on. */
const DIST_HOOKS = `
export async function resolve(specifier, context, next) {
  const found = await next(specifier, context);
  const path = /^(.*)\\/src\\/(.*)\\.ts$/.exec(found.url);
  return path === null ? found : { url: path[1] + "/dist/" + path[2] + ".js", format: "module", shortCircuit: true };
}`;

const SHOWN_MAX = 50;
/**
 * What a seed makes is dropped with it: a larger nursery keeps it from being copied. Each core has a child of its own, so threads
 * that collect and compile beside it only take time from the others: without them, 16 % less CPU.
 */
const NODE_OPTIONS = ["--max-semi-space-size=64", "--single-threaded", "--import", "tsx"];

async function child(share: Share): Promise<void> {
  if (share.isDist) register(`data:text/javascript,${encodeURIComponent(DIST_HOOKS)}`);
  if (!share.isTraced) Error.stackTraceLimit = 0; // hundreds of attempts fail in a seed, and nobody reads where
  const { simulate } = await import("../test/simulation/simulate.ts");
  for (let index = 0; index < share.count; index += 1) {
    if (share.untilMs !== undefined && Date.now() > share.untilMs) break;
    const seed = share.from + index * share.step;
    tell({ kind: "begun", seed });
    const result = await simulate(seed);
    tell(ended(seed, result, share.isTraced));
  }
  const { user, system } = process.cpuUsage();
  tell({ kind: "spent", cpuMs: (user + system) / 1_000 });
  process.disconnect();
}

function ended(seed: number, result: SimulationResult, isTraced: boolean): Message {
  const { violations, met, traceHash, workload, trace } = result;
  const items = workload.lines.length;
  return { kind: "ended", seed, violations, met: [...met], traceHash, items, trace: isTraced ? trace : [] };
}

function tell(message: Message): void {
  process.send?.(message);
}

async function parent(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seeds: { type: "string" },
      from: { type: "string" },
      minutes: { type: "string" },
      jobs: { type: "string" },
      dist: { type: "boolean", default: false },
      trace: { type: "boolean", default: false },
      hashes: { type: "boolean", default: false },
    },
  });
  const minutes = whole("minutes", values.minutes, undefined);
  const seeds = whole("seeds", values.seeds, minutes === undefined ? 200 : Number.MAX_SAFE_INTEGER);
  const from = whole("from", values.from, ALL_DRAWN_FROM) ?? ALL_DRAWN_FROM;
  const jobs = Math.min(seeds ?? 1, whole("jobs", values.jobs, availableParallelism()) ?? 1);
  const untilMs = minutes === undefined ? undefined : Date.now() + minutes * 60_000;
  const book = new Book(values.hashes);
  const startMs = Date.now();
  const shares = Array.from({ length: jobs }, (_, index) => ({
    from: from + index,
    count: Math.ceil(((seeds ?? 0) - index) / jobs),
    step: jobs,
    untilMs,
    isDist: values.dist,
    isTraced: values.trace,
  }));
  await Promise.all(shares.map((share) => run(share, book)));
  book.print((Date.now() - startMs) / 1_000);
  process.exitCode = book.failures > 0 ? 1 : 0;
}

/** Resolves when the child is gone; a child that dies in the middle of a seed is a failure of that seed. */
function run(share: Share, book: Book): Promise<void> {
  const file = fileURLToPath(import.meta.url);
  const options = { execArgv: NODE_OPTIONS, stdio: ["ignore", "inherit", "inherit", "ipc"] as const };
  const worker: ChildProcess = fork(file, [JSON.stringify(share)], { ...options, stdio: [...options.stdio] });
  let seed: number | undefined;
  worker.on("message", (message: Message) => {
    if (message.kind === "begun") seed = message.seed;
    else if (message.kind === "spent") book.cpuMs += message.cpuMs;
    else {
      seed = undefined;
      book.add(message);
    }
  });
  return new Promise((resolve) => {
    worker.on("exit", (code, signal) => {
      const isLost = seed !== undefined || code !== 0;
      if (isLost) book.fail(seed ?? share.from, [`the process ended with ${signal ?? code}`]);
      resolve();
    });
  });
}

/** What has come of the seeds. */
class Book {
  cpuMs = 0;
  failures = 0;
  readonly #withHashes: boolean;
  readonly #pairs = new PairTable();
  #seeds = 0;
  #items = 0;

  constructor(withHashes: boolean) {
    this.#withHashes = withHashes;
  }

  add({ seed, violations, met, traceHash, items, trace }: Extract<Message, { kind: "ended" }>): void {
    this.#seeds += 1;
    this.#items += items;
    this.#pairs.add(met);
    for (const line of trace) console.log(line);
    if (this.#withHashes) console.log(`${seed} ${traceHash}`);
    if (violations.length > 0) this.fail(seed, violations);
  }

  fail(seed: number, violations: readonly string[]): void {
    this.failures += 1;
    if (this.failures > SHOWN_MAX) return;
    const laws = [...new Set(violations)].slice(0, 5).map((law) => `  ${law.slice(0, 500)}`);
    console.log(`seed ${seed} at ${commit()} breaks:\n${laws.join("\n")}`);
    console.log(`  replay: npm run simulate -- --seeds 1 --from ${seed} --trace`);
  }

  print(seconds: number): void {
    const rate = (count: number, by: number): string => (count / Math.max(by, 0.001)).toFixed(1);
    console.log(this.#pairs.toString());
    console.log(
      `${this.#seeds} seeds in ${seconds.toFixed(1)} s: ${rate(this.#seeds, seconds)} a second, ` +
        `${rate(this.#seeds, this.cpuMs / 1_000)} a CPU second, ${rate(this.#items, this.#seeds)} items each; ` +
        `${this.failures} broke a law`,
    );
  }
}

function commit(): string {
  try {
    return execFileSync("git", ["describe", "--always", "--dirty"], { encoding: "utf8" }).trim();
  } catch {
    return "an unknown commit";
  }
}

function whole(name: string, text: string | undefined, otherwise: number | undefined): number | undefined {
  if (text === undefined) return otherwise;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new Error(`--${name} must be a whole number of 0 or more, got ${JSON.stringify(text)}`);
}

if (process.send === undefined) await parent();
else await child(JSON.parse(process.argv[2] ?? "{}") as Share);
