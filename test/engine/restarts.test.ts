/** What the limits know of the processes before, after any jumps of the machine's clocks in between. */
import { describe, expect, it } from "vitest";
import { killedAfter, mostInAMinute } from "./runs.ts";
import { OUTPUT, ok, status, World } from "./world.ts";

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
    for (let round = 0; round < 70; round += 1) {
      await killedAfter(world, 1_000);
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
    for (let round = 0; round < 70; round += 1) {
      await killedAfter(world, 1_000);
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
