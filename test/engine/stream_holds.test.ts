/**
 * Streams that are longer than the backlog, under `finish`, while everything that was read of them is held.
 */
import { describe, expect, it } from "vitest";
import type { ConfigOptions } from "../../src/engine/config/config.ts";
import type { Run } from "../../src/engine/runs/run.ts";
import { endOf, failure } from "./runs.ts";
import { itemLine, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT, waitMs: 0, finish: true };
const PAD = "x".repeat(16_000); // the backlog is full of few lines
/** Lines that a run reads at most before the backlog is full; those of a block more, and those that are measured. */
const BACKLOG_LINES_MAX = 500;
const LINES_PER_SECOND = 25;

const noMoney = (config: ConfigOptions = {}) =>
  new World({ config, answer: () => status(402, "insufficient_balance") });

const longLine = (line: number): string => itemLine(line).replace("[[", `${PAD} [[`);

/** A source of so many long lines, and how many it has given; `then` comes after them. */
function longStream(world: World, lines: number, then: () => Promise<void> = async () => undefined) {
  const given = { lines: 0 };
  const source = (async function* () {
    for (let line = 1; line <= lines; line += 1) {
      given.lines = line;
      yield Buffer.from(longLine(line));
      if (line % LINES_PER_SECOND === 0) await world.clock.sleep(1_000);
    }
    await then();
  })();
  return { given, source };
}

/** A run whose reader waits for a place in the backlog and whose stream is read on. */
async function readingRest(world: World, lines: number, options: object = {}, then?: () => Promise<void>) {
  const { given, source } = longStream(world, lines, then);
  const engine = await world.engine();
  const run = engine.run(source, { ...OPTIONS, ...options });
  await world.clock.advance(35_000);
  expect(given.lines).toBeGreaterThanOrEqual(750);
  expect(run.progress()).toMatchObject({ state: "paused", pausedBy: "alpha quota" });
  expect(run.progress().linesRead).toBeLessThan(BACKLOG_LINES_MAX);
  return { engine, run, given };
}

const never = (): Promise<void> => new Promise(() => undefined);

describe("a run with `finish` whose stream is longer than the backlog while all of it is held", () => {
  it("reads the stream to its end first, so that no line is lost", async () => {
    const world = noMoney();
    const { run } = await readingRest(world, 1_000);
    expect(await world.settle(run.finished)).toMatchObject({
      status: "completed",
      items: 1_000,
      errors: { quota_exceeded: 1_000 },
    });
    const keys = new Set(world.output().map(({ key }) => key));
    expect(keys).toEqual(new Set(Array.from({ length: 1_000 }, (_, index) => `k${index + 1}`)));
  });

  it.each([
    ["given up", {}, "quota_exceeded"],
    ["expired", { sla: 1 }, "expired"],
  ])(
    "ends the later of two lines with one key as a duplicate, also when the rest is %s",
    async (_, options, code) => {
      const world = noMoney();
      const { source } = longStream(world, 750, async () => {
        if ("sla" in options) await never();
      });
      const repeating = (async function* () {
        for await (const line of source) yield Buffer.from(line.toString().replace('"k725"', '"k7"'));
      })();
      const run = (await world.engine()).run(repeating, { ...OPTIONS, ...options });
      const summary = await world.settle(run.finished);
      expect(summary).toMatchObject({ items: 750, errors: { duplicate_key: 1 } });
      expect(world.output().filter(({ error }) => error?.code === code)).toHaveLength(749);
      const lines = world.output().filter(({ key }) => key === "k7");
      expect(lines.map(({ error }) => error?.code).sort()).toEqual(["duplicate_key", code].sort());
      expect(lines.find(({ error }) => error?.code === "duplicate_key")?.error?.line).toBe(725);
    },
  );

  it("answers the held items when the account has money again before the stream ends", async () => {
    const world = noMoney();
    const { run } = await readingRest(world, 1_750);
    world.answer = (line) => ok(line);
    expect(await world.settle(run.finished)).toMatchObject({
      status: "completed",
      items: 1_750,
      counts: { completed: 1_750 },
    });
  });

  it("does not read ahead of the backlog any more once the account has money again", async () => {
    const world = noMoney({ limits: { alpha: { requestsPerMinute: 15 } } });
    const { run, given } = await readingRest(world, 100_000);
    world.answer = (line) => ok(line);
    await world.clock.advance(90_000);
    expect(run.progress()).toMatchObject({ state: "running" });
    const { lines } = given;
    await world.clock.advance(60_000);
    expect(given.lines).toBe(lines);
    run.stop();
    await world.settle(run.finished);
  });

  it("leaves the rest for its next call when it is stopped meanwhile", async () => {
    const world = noMoney();
    const { engine, run, given } = await readingRest(world, 1_000);
    run.stop();
    const { lines } = given;
    expect(await world.settle(run.finished)).toMatchObject({ status: "stopped", counts: { failed: 0 } });
    expect(given.lines - lines).toBeLessThanOrEqual(1);
    expect(world.output()).toEqual([]);
    await world.settle(engine.close());
    world.answer = (line) => ok(line);
    const again = await world.engine();
    const next = again.run(longStream(world, 1_000).source, OPTIONS);
    expect(await world.settle(next.finished)).toMatchObject({ items: 1_000, counts: { completed: 1_000 } });
  });

  it("ends the lines that have come as expired when its deadline passes meanwhile", async () => {
    const world = noMoney();
    const { run, given } = await readingRest(world, 100_000, { sla: 1 });
    const summary = await world.settle(run.finished);
    expect(world.clock.nowMs()).toBeLessThan(61_000);
    expect(summary).toMatchObject({ status: "completed", counts: { expired: summary.items } });
    expect(summary.items).toBeGreaterThan(1_250);
    expect(given.lines - summary.items).toBeLessThanOrEqual(1);
  });

  it.each([
    ["gives lines for ever", Number.POSITIVE_INFINITY],
    ["is silent for ever", 750],
  ])("is not kept by a stream that %s when it is stopped or cancelled", async (_, lines) => {
    const end = async (leave: (run: Run) => unknown) => {
      const world = noMoney();
      const { run, given } = await readingRest(world, lines, {}, never);
      await world.clock.advance(10_000);
      expect(run.progress().state).toBe("paused");
      const atMs = world.clock.nowMs();
      leave(run);
      const summary = await world.settle(run.finished);
      expect(world.clock.nowMs() - atMs).toBeLessThan(1_000);
      return { summary, given: given.lines };
    };
    const stopped = await end((run) => run.stop());
    expect(stopped.summary).toMatchObject({ status: "stopped", counts: { failed: 0 } });
    const cancelled = await end((run) => run.cancel());
    const { items } = cancelled.summary;
    expect(cancelled.summary).toMatchObject({ status: "completed", counts: { cancelled: items } });
    expect(items).toBeGreaterThanOrEqual(750);
    expect(cancelled.given - items).toBeLessThanOrEqual(1);
  });

  it("fails with the error of its stream, and goes on when it is given again", async () => {
    const world = noMoney();
    const error = new Error("the source broke");
    const { source } = longStream(world, 750, () => Promise.reject(error));
    const engine = await world.engine();
    expect(await failure(world, engine.run(source, OPTIONS).finished)).toBe(error);
    expect(world.output()).toEqual([]);
    await world.settle(engine.close());
    world.answer = (line) => ok(line);
    expect(await endOf(world, longStream(world, 775).source, OPTIONS)).toMatchObject({
      items: 775,
      counts: { completed: 775 },
    });
  });

  it("fails when the disk stays full meanwhile", async () => {
    const world = noMoney();
    const { run } = await readingRest(world, 100_000);
    world.disk.setFull(0);
    expect(await failure(world, run.finished)).toMatchObject({ code: "disk_full" });
  });
});
