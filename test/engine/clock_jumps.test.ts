/** Deadlines over a start: the wall clock may have been set meanwhile, it counts whole milliseconds only, and disks are slow. */
import { describe, expect, it } from "vitest";
import type { Step } from "../../src/engine/journal/journal.ts";
import { INPUT, itemLine, OUTPUT, ok, World } from "./world.ts";

const DAY_MS = 86_400_000;

it("A run keeps its deadline when the wall clock is 40 days ahead at a start, and at the one after it", async () => {
  const world = new World({ config: { limits: { alpha: { requestsPerMinute: 1 } } } });
  world.input(200);
  const options = { out: OUTPUT, sla: 60 };
  void (await world.engine()).run(INPUT, options).finished.catch(() => undefined);
  await world.clock.advance(10 * 60_000);
  world.kill();
  world.clock.jumpWall(40 * DAY_MS);
  void (await world.engine()).run(INPUT, options).finished.catch(() => undefined);
  await world.clock.advance(10 * 60_000);
  expect(world.output().length).toBeLessThan(30);
  world.kill();
  const work = (await world.engine()).run(INPUT, options);
  const startMs = world.clock.nowMs();
  expect(await world.settle(work.finished)).toMatchObject({ status: "completed" });
  expect(world.sent.length).toBeGreaterThan(50);
  expect(world.clock.nowMs() - startMs).toBeGreaterThan(39 * 60_000);
  expect(world.clock.nowMs() - startMs).toBeLessThan(42 * 60_000);
});

it.each([2, -2])(
  "A run keeps its deadline when the wall clock jumps %i hours while it is accepted",
  async (hours) => {
    const world = new World({ commitMs: 100, latencyMs: 1_000, config: { maxInFlight: 1 } });
    world.input(200);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, sla: 2 });
    await world.clock.advance(50);
    world.clock.jumpWall(hours * 3_600_000);
    const { counts } = await world.settle(run.finished);
    expect(counts.completed).toBeGreaterThan(90);
    expect(counts.expired).toBeGreaterThan(50);
    expect(world.clock.nowMs()).toBeGreaterThan(119_000);
    expect(world.clock.nowMs()).toBeLessThan(121_000);
  },
);

it.each([50, 5, -50])(
  "A run keeps a deadline of half an hour when the wall clock is %i minutes off at the start that continues it",
  async (minutes) => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 1 } } } });
    world.input(100);
    const options = { out: OUTPUT, sla: 30 };
    void (await world.engine()).run(INPUT, options).finished.catch(() => undefined);
    await world.clock.advance(10 * 60_000);
    world.kill();
    world.clock.jumpWall(minutes * 60_000);
    const work = (await world.engine()).run(INPUT, options);
    const startMs = world.clock.nowMs();
    await world.settle(work.finished);
    expect(world.sent.length).toBeGreaterThan(25);
    expect((world.clock.nowMs() - startMs) / 60_000).toBeCloseTo(20, 0);
  },
);

it.each([0, 0.3, 0.6, 0.999])(
  "A run ends nothing before its sla is over, accepted %d ms after a whole millisecond and continued at another",
  async (fractionMs) => {
    for (const continuedMs of [undefined, 10_000, 10_000.4, 10_000.7]) {
      const world = new World({ config: { limits: { alpha: { requestsPerMinute: 1 } } } });
      world.input(5);
      await world.clock.advance(5_000 + fractionMs);
      const acceptedMs = world.clock.nowMs();
      const options = { out: OUTPUT, sla: 1 };
      const first = (await world.engine()).run(INPUT, options).finished;
      first.catch(() => undefined);
      if (continuedMs !== undefined) {
        await world.clock.advance(continuedMs);
        world.kill();
      }
      const finished =
        continuedMs === undefined ? first : (await world.engine()).run(INPUT, options).finished;
      expect((await world.settle(finished)).counts.expired).toBeGreaterThan(2);
      const tookMs = world.clock.nowMs() - acceptedMs;
      expect(tookMs).toBeGreaterThanOrEqual(60_000);
      expect(tookMs).toBeLessThan(60_003);
    }
  },
);

it.each([40, 1, -40])(
  "A run keeps its deadline when the wall clock is set by %i seconds before a start",
  async (seconds) => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 1 } } } });
    world.input(10);
    const options = { out: OUTPUT, sla: 1 };
    void (await world.engine()).run(INPUT, options).finished.catch(() => undefined);
    await world.clock.advance(10_000);
    world.kill();
    world.clock.jumpWall(seconds * 1_000);
    const { counts } = await world.settle((await world.engine()).run(INPUT, options).finished);
    expect(counts.expired).toBeGreaterThan(5);
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(60_000);
    expect(world.clock.nowMs()).toBeLessThan(60_003);
  },
);

const HOUR_MS = 3_600_000;

describe.each([HOUR_MS, -HOUR_MS])("a wall clock that jumps by %i ms while a run is opened", (jumpMs) => {
  /** The wall clock jumps when the input is opened, or read for that time. */
  function jumpAtInput(world: World, at: number): void {
    const open = world.disk.open.bind(world.disk);
    let uses = 0;
    const use = (): void => {
      if (uses === at) world.clock.jumpWall(jumpMs);
      uses += 1;
    };
    world.disk.open = async (path, mode) => {
      const file = await open(path, mode);
      if (path !== INPUT) return file;
      use();
      const read = file.read.bind(file);
      file.read = (into, position) => {
        use();
        return read(into, position);
      };
      return file;
    };
  }

  it.each([0, 1, 2, 3])("moves no deadline of a new run, at use %i of its input", async (at) => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 1 } } } });
    world.input(10);
    jumpAtInput(world, at);
    const { finished } = (await world.engine()).run(INPUT, { out: OUTPUT, sla: 2 });
    expect((await world.settle(finished)).counts.expired).toBeGreaterThan(5);
    expect(Math.round(world.clock.nowMs() / 1_000)).toBe(120);
  });

  it.each([
    ["sla is another one", { sla: 2 }],
    ["failed lines run again", { sla: 1, retryFailed: true }],
    ["input has changed", { sla: 1, update: true }],
  ] as const)("moves no deadline of one whose %s", async (_what, options) => {
    for (const at of [0, 1, 2, 3]) {
      const world = new World({ config: { limits: { alpha: { requestsPerMinute: 1 } } } });
      world.input(10);
      const first = await world.engine();
      const run = first.run(INPUT, { out: OUTPUT, sla: 1 });
      if (options.sla === 1) await world.settle(run.finished);
      else await world.clock.advance(10_000);
      run.stop();
      await world.settle(first.close());
      if ("update" in options) world.input(14);
      const startMs = world.clock.nowMs();
      jumpAtInput(world, at);
      const { finished } = (await world.engine()).run(INPUT, { out: OUTPUT, ...options });
      expect((await world.settle(finished)).counts.expired).toBeGreaterThan(5);
      expect(Math.round((world.clock.nowMs() - startMs) / 1_000)).toBe(options.sla * 60);
    }
  });
});

it("A run expires what is left within a second of the start that finds its sla over, on a disk that takes 100 ms for each write", async () => {
  const answer = (line: number) => (line <= 2 ? ok(line) : "hang");
  const world = new World({ diskLatencyMs: 100, commitMs: 100, answer });
  const source = async function* () {
    yield Buffer.from([1, 2, 3, 4, 5].map((line) => itemLine(line)).join(""));
  };
  const options = { out: OUTPUT, sla: 1, cap: { name: "team", usd: 5 }, maxCostUnbounded: true };
  void (await world.engine()).run(source(), options).finished.catch(() => undefined);
  await world.clock.advance(10_000);
  world.kill();
  await world.clock.advance(100_000);
  const engine = await world.engine();
  const startMs = world.clock.nowMs();
  let tookMs = 0;
  const onStep = (sequence: number, { outcomes }: Step): void => {
    if (sequence === 0 && outcomes.length > 0) tookMs = world.clock.nowMs() - startMs;
  };
  const { counts } = await world.settle(engine.run(source(), { ...options, onStep }).finished);
  expect(counts).toMatchObject({ completed: 2, expired: 3 });
  expect(tookMs).toBeGreaterThan(0);
  expect(tookMs).toBeLessThan(1_000);
});
