/** What the limits know of the processes before, after any jumps of the machine's clocks in between. */
import { describe, expect, it } from "vitest";
import { killedAfter, mostInAMinute } from "./runs.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

const HOUR_MS = 3_600_000;

const LIMIT = 300;
const limited = (): World => {
  const world = new World({ config: { limits: { alpha: { requestsPerMinute: LIMIT } } } });
  world.input(650);
  return world;
};
const mostOf = (world: World): number => mostInAMinute(world.sent.map(({ atMs }) => atMs));

describe("the limits of the last minute", () => {
  it.each([
    ["an hour forwards", HOUR_MS],
    ["an hour back", -HOUR_MS],
    ["ten seconds back", -10_000],
  ])("fault 77: hold over many restarts while the wall clock jumps %s each time", async (_, jumpMs) => {
    const world = limited();
    for (let round = 0; round < 35; round += 1) {
      await killedAfter(world, 2_000);
      world.clock.jumpWall(jumpMs);
    }
    expect(mostOf(world)).toBeLessThanOrEqual(LIMIT);
    expect(world.sent.length).toBeGreaterThan(0.97 * LIMIT * (70 / 60)); // and nothing is waited for twice
  });

  it.each([
    ["stays", 0],
    ["jumps an hour forwards", HOUR_MS],
    ["jumps an hour back", -HOUR_MS],
  ])("hold when the machine is booted again and again, and its wall clock %s", async (_, jumpMs) => {
    const world = limited();
    for (let round = 0; round < 35; round += 1) {
      await killedAfter(world, 2_000);
      world.clock.reboot();
      world.clock.jumpWall(jumpMs);
    }
    expect(mostOf(world)).toBeLessThanOrEqual(LIMIT);
  });

  it("do not wait for what was sent long ago, under another boot or the same", async () => {
    for (const isRebooted of [false, true]) {
      const world = limited();
      await killedAfter(world, 61_000);
      if (isRebooted) world.clock.reboot();
      await world.clock.advance(62_000);
      const before = world.sent.length;
      await killedAfter(world, 60_000);
      expect(world.sent.length - before).toBeGreaterThan(0.97 * LIMIT);
    }
  });
});

describe("a cool-down", () => {
  /** A provider that refuses everything before `untilMs` and tells to wait until then. */
  const refusing = (untilMs: number): World => {
    const world: World = new World({
      answer: (line) => {
        const leftMs = untilMs - world.clock.nowMs();
        return leftMs > 0 ? status(429, "rate_limit_exceeded", { "retry-after-ms": `${leftMs}` }) : ok(line);
      },
    });
    world.input(20);
    return world;
  };

  it("is kept over restarts: nothing is sent before the time that the provider named", async () => {
    const world = refusing(300_000);
    await killedAfter(world, 1_000);
    const before = world.sent.length;
    expect(before).toBeGreaterThan(0);
    for (const jumpMs of [HOUR_MS, -HOUR_MS, 0]) {
      world.clock.jumpWall(jumpMs);
      await killedAfter(world, 90_000);
    }
    expect(world.sent).toHaveLength(before);
    await killedAfter(world, 60_000);
    const next = world.sent[before];
    expect(next?.atMs).toBeGreaterThanOrEqual(300_000);
    expect(next?.atMs).toBeLessThan(301_000);
    expect(world.output()).toHaveLength(20);
  });

  it("is kept over a restart that recovers the output and is killed before it sends", async () => {
    const world = refusing(120_000);
    await killedAfter(world, 1_000);
    const before = world.sent.length;
    const file = await world.disk.open(OUTPUT, "write");
    await file.write(new TextEncoder().encode('{"key":"k1","output":{"ty'), 0);
    await killedAfter(world, 100);
    await killedAfter(world, 100_000);
    expect(world.sent).toHaveLength(before);
  });

  it("of one model does not affect the others of its provider", async () => {
    const world: World = new World({
      answer: (line, _, model) =>
        model === "m1" ? status(429, "rate_limit_exceeded", { "retry-after": "300" }) : ok(line),
    });
    world.input(20, (line) => `alpha:m${line % 2}`);
    await killedAfter(world, 15);
    world.input(20, (line) => `alpha:m${line % 2}`, "/more.jsonl");
    const run = (await world.engine()).run("/more.jsonl", { out: "/more.out" });
    await world.clock.advance(10_000);
    expect(world.sent.filter(({ model, atMs }) => model === "m1" && atMs > 20)).toEqual([]);
    expect(run.progress().completed).toBe(10);
    run.stop();
    await world.settle(run.finished);
  });

  it("lasts at most 15 minutes from the restart, for any time of the machine's clocks", async () => {
    const world = refusing(900_000);
    await killedAfter(world, 600_000);
    const before = world.sent.length;
    world.clock.reboot();
    world.clock.jumpWall(-HOUR_MS);
    await killedAfter(world, 901_000);
    expect(world.sent.length).toBeGreaterThan(before);
  });
});

describe("a stop", () => {
  const KINDS = {
    "without money": status(402, "insufficient_quota"),
    "whose key is refused": status(401, "invalid_api_key"),
    "that the key may not use": status(404, "model_not_found"),
  } as const;

  describe.each(Object.entries(KINDS))("of a lane %s", (_, refusal) => {
    /** All but the first three items are refused. */
    const stopped = (): World => {
      const world = new World({ answer: (line) => (line <= 3 ? ok(line) : refusal) });
      world.input(200);
      return world;
    };

    it("is kept when the process is killed at once: the next one sends one request first", async () => {
      const world = stopped();
      await killedAfter(world, 1_000);
      for (const jumpMs of [0, HOUR_MS, -HOUR_MS]) {
        const before = world.sent.length;
        world.clock.jumpWall(jumpMs);
        await killedAfter(world, 1_000);
        expect(world.sent.length - before).toBe(1);
      }
      world.answer = ok;
      const before = world.sent.length;
      await killedAfter(world, 1_000);
      expect(world.sent.length - before).toBe(197);
      expect(world.output()).toHaveLength(200);
    });

    it("that is kept holds what waits from the first probe on, and no command ends before that", async () => {
      const world = stopped();
      await killedAfter(world, 1_000);
      const before = world.sent.length;
      world.answer = (line) => ({ afterMs: 5_000, result: line <= 3 ? ok(line) : refusal });
      const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 0 });
      await world.clock.advance(1_000);
      expect(run.progress().held).toMatchObject([{ items: 197 }]);
      const summary = await world.settle(run.finished);
      expect(summary).toMatchObject({ status: "paused", counts: { completed: 3, submitted: 197 } });
      expect(world.sent.length - before).toBe(1);
    });

    it("that is kept ends nothing of another command before the first probe was answered", async () => {
      const world = stopped();
      await killedAfter(world, 1_000);
      world.answer = (line) => ({ afterMs: 5_000, result: ok(line) });
      const engine = await world.engine();
      const first = engine.run(INPUT, { out: OUTPUT });
      await world.clock.advance(1_000);
      const other = engine.run(INPUT, { out: "/other.jsonl", finish: true, waitMs: 0 });
      const summaries = await world.settle(Promise.all([first.finished, other.finished]));
      for (const { counts } of summaries) expect(counts).toMatchObject({ completed: 200, failed: 0 });
    });

    it("is not kept when it was over before the process was killed", async () => {
      const world = stopped();
      await killedAfter(world, 1_000);
      world.answer = (line) => (line <= 150 ? ok(line) : "hang");
      await killedAfter(world, 1_000);
      const before = world.sent.length;
      await killedAfter(world, 1_000);
      expect(world.sent.length - before).toBe(50);
    });
  });
});
