/**
 * Progress that is reported: at a bounded rate, with pauses and their end, once at the end, and never to the run's harm.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import type { ProgressEvent } from "../../src/engine/runs/progress_feed.ts";
import { INPUT, OUTPUT, ok, status, World, type WorldOptions } from "./world.ts";

interface Told {
  readonly events: ProgressEvent[];
  readonly atMs: number[];
}

function listener(world: World): Told & { readonly onProgress: (event: ProgressEvent) => void } {
  const told: Told = { events: [], atMs: [] };
  const onProgress = (event: ProgressEvent): void => {
    told.events.push(event);
    told.atMs.push(world.clock.nowMs());
  };
  return { ...told, onProgress };
}

/** Fifty items of 100 ms each, two at a time: 2.5 seconds. */
async function started(options: WorldOptions = {}) {
  const world = new World({ latencyMs: 100, config: { maxInFlight: 2 }, ...options });
  world.input(50);
  return { world, engine: await world.engine() };
}

const typesOf = (events: readonly ProgressEvent[]): string[] => events.map(({ type }) => type);

describe("a listener of a run", () => {
  it("receives progress four times a second, and the end as the last", async () => {
    const { world, engine } = await started();
    const { events, atMs, onProgress } = listener(world);
    const run = engine.run(INPUT, { out: OUTPUT, onProgress });
    let isOver = false;
    const summary = run.finished.then((value) => {
      isOver = true;
      expect(events.at(-1)?.type).toBe("end"); // before the run's promise settles
      return value;
    });
    await world.settle(summary);
    await world.clock.advance(15_000);
    expect(isOver).toBe(true);
    expect(typesOf(events)).toEqual([...Array(events.length - 1).fill("progress"), "end"]);
    expect(events.length).toBeGreaterThan(8);
    for (const [index, at] of atMs.slice(0, -1).entries()) expect(at).toBe((index + 1) * 250);
    expect(events.at(-1)).toMatchObject({
      status: "completed",
      progress: { state: "done", settled: 50, completed: 50, linesTotal: 50 },
    });
    expect(world.clock.pendingTimers).toBe(0);
  });

  it("receives events as seldom as it asks for", async () => {
    const { world, engine } = await started();
    const { atMs, onProgress } = listener(world);
    await world.settle(engine.run(INPUT, { out: OUTPUT, onProgress, progressEveryMs: 1_000 }).finished);
    expect(atMs.slice(0, 2)).toEqual([1_000, 2_000]);
    expect(atMs).toHaveLength(3);
  });

  it("is refused when it is not a function, or wants events too often", async () => {
    const { world, engine } = await started();
    const options = [{ onProgress: 5 }, { progressEveryMs: 49 }, { progressEveryMs: Number.NaN }];
    for (const wrong of options)
      expect(() => engine.run(INPUT, wrong as never)).toThrow(expect.objectContaining({ code: "usage" }));
    const rejected = engine.submit([{ model: "alpha:m1", input: "x" }], { progressEveryMs: 0 });
    await expect(world.settle(rejected)).rejects.toMatchObject({ code: "usage" });
  });

  it("hears of a pause with its reason, and of its end when items are answered again", async () => {
    const { world, engine } = await started({
      answer: (line) => (world.clock.nowMs() < 100_000 ? status(429, "insufficient_quota") : ok(line)),
    });
    const { events, atMs, onProgress } = listener(world);
    await world.settle(engine.run(INPUT, { out: OUTPUT, onProgress, progressEveryMs: 20_000 }).finished);
    const told = events.filter(({ type }) => type !== "progress");
    expect(told).toMatchObject([
      { type: "paused", reason: "alpha quota", progress: { state: "paused" } },
      { type: "resumed" },
      { type: "end", status: "completed" },
    ]);
    expect(atMs[0]).toBeLessThanOrEqual(500); // a pause is not kept until the next progress is due
  });

  it("hears of a full disk as a pause", async () => {
    const { world, engine } = await started();
    const { events, onProgress } = listener(world);
    const run = engine.run(INPUT, { out: OUTPUT, onProgress });
    await world.clock.advance(600);
    world.disk.setFull(10);
    await world.clock.advance(5_000);
    expect(run.progress()).toMatchObject({ state: "paused", pausedBy: "a full disk" });
    world.disk.setFull(Number.POSITIVE_INFINITY);
    await world.settle(run.finished);
    expect(typesOf(events).filter((type) => type !== "progress")).toEqual(["paused", "resumed", "end"]);
  });

  it("hears how a run ended that was stopped, that failed, and that was over before", async () => {
    const { world, engine } = await started();
    const stopped = listener(world);
    const run = engine.run(INPUT, { out: OUTPUT, onProgress: stopped.onProgress });
    await world.clock.advance(600);
    run.stop("enough");
    await world.settle(run.finished);
    expect(stopped.events.at(-1)).toMatchObject({ type: "end", status: "stopped", reason: "enough" });

    const failed = listener(world);
    const missing = engine.run("/missing.jsonl", { onProgress: failed.onProgress });
    await expect(world.settle(missing.finished)).rejects.toMatchObject({ code: "input_unreadable" });
    expect(failed.events).toMatchObject([
      { type: "end", status: "failed", error: { code: "input_unreadable" } },
    ]);

    await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    const again = listener(world);
    await world.settle(engine.run(INPUT, { out: OUTPUT, onProgress: again.onProgress }).finished);
    expect(again.events).toMatchObject([
      { type: "end", status: "completed", progress: { state: "done", settled: 50, linesTotal: 50 } },
    ]);
  });

  it("that throws or rejects harms nothing, still receives events, and is warned of once", async () => {
    const warnings: string[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning.message);
    process.on("warning", onWarning);
    onTestFinished(() => void process.off("warning", onWarning));
    const { world, engine } = await started();
    const { events, onProgress } = listener(world);
    const throwing = (event: ProgressEvent): void => {
      onProgress(event);
      throw new Error("thrown by the listener");
    };
    const rejecting = (event: ProgressEvent): Promise<never> => {
      onProgress(event);
      return Promise.reject(new Error("rejected by the listener"));
    };
    const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, onProgress: throwing }).finished);
    expect(summary.counts.completed).toBe(50);
    expect(typesOf(events).at(-1)).toBe("end");
    await world.settle(engine.run(INPUT, { out: "/b.jsonl", onProgress: rejecting }).finished);
    await sleep(10);
    expect(warnings).toEqual([
      expect.stringContaining("thrown by the listener"),
      expect.stringContaining("rejected by the listener"),
    ]);
  });
});

describe("a listener of a submitted list", () => {
  const items = [1, 2, 3, 4, 5, 6].map((line) => ({
    model: "alpha:m1",
    input: `[[${line}]] hello`,
    ...(line > 2 ? { sla: line > 4 ? 60 : 1_440 } : {}),
  }));

  it("receives the progress of the whole list until its last item is answered, also after submit has resolved", async () => {
    const { world, engine } = await started();
    world.answer = (line) => ({ afterMs: line * 400, result: ok(line) });
    const { events, onProgress } = listener(world);
    const task = await world.settle(engine.submit(items, { onProgress }));
    expect(task.counts).toMatchObject({ submitted: 4, completed: 2 });
    expect(typesOf(events)).not.toContain("end");
    await world.clock.advance(10_000);
    expect(events.at(-1)).toMatchObject({
      type: "end",
      status: "completed",
      progress: { state: "done", linesTotal: 6, settled: 6, completed: 6, errors: 0, inFlight: 0 },
    });
    const settled = events.map(({ progress }) => progress.settled);
    expect(settled).toEqual([...settled].sort((left, right) => left - right));
    expect(typesOf(events).indexOf("end")).toBe(events.length - 1);
    expect(await world.settle(engine.task(task.task_id))).toMatchObject({ status: "completed" });
  });

  it("hears the end before submit resolves when no item can wait", async () => {
    const { world, engine } = await started();
    const { events, onProgress } = listener(world);
    await world.settle(engine.submit(items.slice(0, 2), { onProgress }));
    expect(events.at(-1)).toMatchObject({ type: "end", status: "completed" });
  });

  it("hears that the list was stopped with its engine", async () => {
    const { world, engine } = await started();
    world.answer = () => "hang";
    const { events, onProgress } = listener(world);
    await world.settle(engine.submit(items.slice(2), { onProgress }));
    await world.settle(engine.close());
    expect(events.at(-1)).toMatchObject({ type: "end", status: "stopped", reason: "closed" });
  });
});
