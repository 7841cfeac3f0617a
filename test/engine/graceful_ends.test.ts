/**
 * Graceful ends of a run whose output has no room while its data folder has: each end, in any state of its requests. What was not
 * sent is not in doubt, what was answered is kept, and the same call continues without a request too many.
 */
import { describe, expect, it } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import type { Run } from "../../src/engine/runs/run.ts";
import { readStatus } from "../../src/engine/runs/run_status.ts";
import { finish } from "./runs.ts";
import { INPUT, OUTPUT, ok, status, World, type WorldOptions } from "./world.ts";

const ITEMS = 24;
const CONFIG = {
  maxInFlight: 4,
  prices: { "alpha:*": { inputUsdPerMillion: 100, outputUsdPerMillion: 1_000 } },
};

/** From when the disk fills up, the state at `afterMs`: what the run is left with. */
const UNDER_WAY: readonly (readonly [string, number, WorldOptions])[] = [
  ["requests that wait for room", 500, { latencyMs: 20 }],
  ["requests in flight beside those that wait for room", 500, { answer: slowEverySecond, latencyMs: 20 }],
  ["items that wait for their next attempt", 500, { answer: failingFirst, latencyMs: 20 }],
  ["commits that take long", 60, { latencyMs: 20, commitMs: 25 }],
];

function slowEverySecond(line: number) {
  return line % 2 === 0 ? { afterMs: 3_000, result: ok(line) } : ok(line);
}

function failingFirst(line: number, attempt: number) {
  return line % 3 === 0 && attempt === 1 ? status(503, "busy") : ok(line);
}

type End = (run: Run, engine: Engine) => void;
const ENDS: readonly (readonly [string, number, End])[] = [
  ["its wait for the disk is over", 2_000, () => undefined],
  ["it does not wait for the disk", 0, () => undefined],
  ["it is stopped", 600_000, (run) => run.stop()],
  ["its engine is closed", 600_000, (_, engine) => void engine.close()],
  [
    "it is cancelled and its wait for the disk is over",
    2_000,
    (run) => void run.cancel().catch(() => undefined),
  ],
  [
    "it is stopped and cancelled",
    600_000,
    (run) => {
      run.stop();
      run.cancel().catch(() => undefined);
    },
  ],
];

const CASES = ENDS.flatMap(([end, diskWaitMs, act]) =>
  UNDER_WAY.map(([what, afterMs, world]) => ({ end, diskWaitMs, act, what, afterMs, world })),
);

async function statusOf(world: World) {
  const store = await world.store.open();
  const task = await store.taskByName(`out:${OUTPUT}`);
  if (task === undefined) throw new Error("no task");
  const found = await readStatus({ store, disk: world.disk, dataDir: "/data" }, task);
  await store.close();
  return found;
}

describe("a run with a full output that ends because", () => {
  it.each(CASES)(
    "$end, with $what, leaves nothing in doubt",
    async ({ diskWaitMs, act, afterMs, world: options }) => {
      const world = new World({ ...options, config: { ...CONFIG, diskWaitMs } });
      world.input(ITEMS);
      const engine = await world.engine();
      const run = engine.run(INPUT, { out: OUTPUT, maxCostUsd: 300 });
      await world.clock.advance(35);
      world.disk.setFull(10);
      await world.clock.advance(afterMs);
      act(run, engine);
      const end = await world.settle(run.finished.catch((error: unknown) => error));
      expect(world.clock.nowMs()).toBeLessThan(60_000);
      if (diskWaitMs < 600_000) expect(end).toMatchObject({ code: "disk_full" });
      else expect(end).toMatchObject({ status: "stopped" });
      await world.settle(engine.close());
      const sent = world.sent.length;
      expect(await statusOf(world)).toMatchObject({ ambiguous_usd: 0, ambiguous_requests: 0 });
      world.disk.setFull(Number.POSITIVE_INFINITY);
      const summary = await finish(world, { out: OUTPUT, maxCostUsd: 300 });
      expect(summary.items).toBe(ITEMS);
      expect(summary.cost.ambiguous_usd).toBe(0);
      expect(summary.usage).toMatchObject({ attempts: world.sent.length, ambiguous_attempts: 0 });
      expect(new Set(world.output().map(({ key }) => key)).size).toBe(ITEMS);
      expect(sent).toBeGreaterThan(0);
    },
  );
});

it("a full output ends its own run only; the others of its engine go on", async () => {
  const world = new World({ config: { maxInFlight: 4, diskWaitMs: 2_000 } });
  world.input(8);
  world.input(8, "beta:m1", "/other.jsonl");
  const open = world.disk.open.bind(world.disk);
  let isFull = true;
  world.disk.open = async (path, mode) => {
    const file = await open(path, mode);
    if (path !== OUTPUT || mode !== "write") return file;
    const write: typeof file.write = (bytes, position) =>
      isFull
        ? Promise.reject(Object.assign(new Error("full"), { code: "ENOSPC" }))
        : file.write(bytes, position);
    return Object.assign(Object.create(file), { write }) as typeof file; // as the disk gives it, but for its writes
  };
  const engine = await world.engine();
  const full = engine.run(INPUT, { out: OUTPUT });
  const other = engine.run("/other.jsonl", { out: "/other.out" });
  await expect(world.settle(full.finished)).rejects.toMatchObject({ code: "disk_full" });
  expect(await world.settle(other.finished)).toMatchObject({ counts: { completed: 8 } });
  isFull = false;
  expect(await world.settle(engine.run(INPUT, { out: OUTPUT }).finished)).toMatchObject({
    counts: { completed: 8 },
  });
  expect(world.sent).toHaveLength(16);
  await world.settle(engine.close());
});
