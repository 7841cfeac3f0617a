/**
 * Whether anything grows that should not: `npm run build && npm run soak [-- --runs 10000 --days 24]`, ten minutes.
 *
 * Two parts, in one process. First so many runs of 20 lines on one engine with its files and SQLite, each with an output of its own
 * that is forgotten when the next 20 runs are over. Then so many virtual days of a service's tasks: posts every five minutes, some
 * cancelled, an outage of an hour each day, and retention of one day.
 *
 * After each tenth the garbage is collected and counted: heap, other memory, descriptors, resources of the event loop, timers, files.
 * The last tenths are compared with the third to fifth, when caches have filled. Exits with 1 if any count grew beyond its bound.
 */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Transport } from "../src/dispatch/transport.ts";
import { resolveConfig } from "../src/engine/config/config.ts";
import { openEngine } from "../src/engine/engine.ts";
import { createInlineMeasurer } from "../src/shard/measurer.ts";
import { keptTasks, startRetention } from "../src/tasks/retention.ts";
import { ok, status } from "../test/engine/world.ts";
import { item, PROJECT, TaskWorld } from "../test/tasks/world.ts";

type Counts = Readonly<Record<string, number>>;

/** How much more than before each count may be at the end: a share of it, and an amount besides. */
const BOUNDS: Readonly<Record<string, { readonly share: number; readonly amount: number }>> = {
  "heap MB": { share: 0.1, amount: 2 },
  "rss MB": { share: 0.1, amount: 24 },
  "external MB": { share: 0.1, amount: 4 },
  descriptors: { share: 0, amount: 2 },
  resources: { share: 0, amount: 2 },
  timers: { share: 0.1, amount: 2 },
  files: { share: 0.1, amount: 4 },
};

const DAY_MS = 86_400_000;
const POST_MS = 300_000;
const TENTHS = 10;

const { values } = parseArgs({
  options: { runs: { type: "string", default: "10000" }, days: { type: "string", default: "24" } },
});

function collect(): void {
  if (globalThis.gc === undefined) throw new Error("start it with --expose-gc, as npm run soak does");
  for (let round = 0; round < 3; round += 1) globalThis.gc();
}

function memory(): Counts {
  collect();
  const { heapUsed, rss, external } = process.memoryUsage();
  const inMb = (bytes: number): number => Math.round(bytes / 104_857.6) / 10;
  return { "heap MB": inMb(heapUsed), "rss MB": inMb(rss), "external MB": inMb(external) };
}

const median = (numbers: readonly number[]): number =>
  [...numbers].sort((left, right) => left - right)[numbers.length >> 1] ?? Number.NaN;

/** Prints the counts of all tenths; returns what has grown. */
function judge(what: string, tenths: readonly Counts[]): string[] {
  const grown: string[] = [];
  console.log(`\n${what}`);
  for (const name of Object.keys(tenths[0] ?? {})) {
    const counts = tenths.map((one) => one[name] ?? Number.NaN);
    const before = median(counts.slice(2, 5));
    const after = median(counts.slice(-3));
    const { share, amount } = BOUNDS[name] ?? { share: 0, amount: 0 };
    const isFlat = after <= before * (1 + share) + amount;
    console.log(`  ${name.padEnd(12)} ${isFlat ? "flat " : "GREW "} ${counts.join(" ")}`);
    if (!isFlat) grown.push(`${what}: ${name} grew from ${before} to ${after}`);
  }
  return grown;
}

function filesIn(folder: string): number {
  return readdirSync(folder, { recursive: true }).length;
}

async function runs(count: number): Promise<string[]> {
  const { createEngine } = await import("../src/index.ts");
  const dir = mkdtempSync(join(tmpdir(), "perigee-soak-"));
  const input = join(dir, "in.jsonl");
  const line = (number: number): string =>
    JSON.stringify({
      key: `k${number}`,
      request: { model: "echo:soak", contents: [{ parts: [{ text: `say ${number}` }] }] },
    });
  writeFileSync(input, `${Array.from({ length: 20 }, (_, index) => line(index)).join("\n")}\n`);
  const engine = await createEngine({ dataDir: join(dir, "data"), stateDir: join(dir, "state") });
  const tenths: Counts[] = [];
  const finished: { readonly id: string; readonly out: string }[] = [];
  try {
    for (let number = 1; number <= count; number += 1) {
      const out = join(dir, `out-${number}.jsonl`);
      const { counts, taskId: id } = await engine.run(input, { out }).finished;
      if (counts.completed !== 20) throw new Error(`run ${number} completed ${counts.completed} of 20 lines`);
      finished.push({ id, out });
      const oldest = finished.length > 20 ? finished.shift() : undefined;
      if (oldest !== undefined) {
        await engine.forget(oldest.id);
        rmSync(oldest.out);
      }
      if (number % (count / TENTHS) === 0) {
        const descriptors = readdirSync("/proc/self/fd").length;
        const resources = process.getActiveResourcesInfo().length;
        tenths.push({ ...memory(), descriptors, resources, files: filesIn(dir) });
      }
    }
  } finally {
    await engine.close();
    rmSync(dir, { recursive: true, force: true });
  }
  return judge(`${count} runs of 20 lines`, tenths);
}

/** A provider that keeps nothing of what it was asked, down for the last hour of each day. */
function provider({ clock }: TaskWorld): Transport {
  return {
    send: async ({ body }, { signal }) => {
      await clock.sleep(700, { signal });
      if (clock.nowMs() % DAY_MS > DAY_MS - 3_600_000) return status(503, "down");
      return ok(Number(/\[\[(\d+)\]\]/.exec(Buffer.from(body).toString())?.[1]));
    },
    stream: () => Promise.reject(new Error("not used")),
    close: async () => undefined,
  };
}

async function days(count: number): Promise<string[]> {
  const world = new TaskWorld();
  const { clock, disk } = world;
  const config = {
    providers: { alpha: { baseUrl: "http://alpha.test/v1" } },
    limits: { alpha: { requestsPerMinute: 600 } },
  };
  const { providers } = resolveConfig(config, {});
  const opened = await openEngine({
    ...config,
    dataDir: "/data",
    stateDir: "/state",
    env: {},
    clock,
    disk,
    transport: provider(world),
    store: await world.store.open(),
    measurer: createInlineMeasurer({ providers, lineBytesMax: 65_536, depthMax: 64, keyBytesMax: 512 }),
  });
  const tasks = await world.tasksOn(opened);
  const retention = startRetention({
    clock,
    store: opened.core.storage.store,
    kinds: [keptTasks(tasks, DAY_MS)],
  });
  const tenths: Counts[] = [];
  const posts = (count * DAY_MS) / POST_MS;
  let number = 1;
  for (let post = 1; post <= posts; post += 1) {
    const sla = [undefined, 30, 90][post % 3];
    const items = Array.from({ length: 1 + (post % 7) }, (_, index) => item(number + index, sla));
    number += items.length;
    const { id } = await world.settle(tasks.submit(PROJECT, { items, hasOutputFile: false }));
    if (post % 11 === 0) await world.settle(tasks.cancel(PROJECT, id));
    await clock.advance(POST_MS);
    if (post % Math.floor(posts / TENTHS) === 0 && tenths.length < TENTHS) {
      tenths.push({ ...memory(), timers: clock.pendingTimers, files: world.disk.paths.length });
    }
  }
  await world.settle(retention.close());
  await world.settle(tasks.close());
  await world.settle(opened.engine.close());
  return judge(`${count} virtual days, ${posts} posts, ${number - 1} items`, tenths);
}

const grown = [...(await runs(Number(values.runs))), ...(await days(Number(values.days)))];
for (const each of grown) console.error(each);
process.exitCode = grown.length === 0 ? 0 : 1;
