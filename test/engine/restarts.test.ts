/** What the limits know of the processes before, whatever the clocks of the machine did in between. */
import { describe, expect, it } from "vitest";
import { INPUT, mortal, OUTPUT, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const HOUR_MS = 3_600_000;

function mostInAMinute(atMs: readonly number[]): number {
  let most = 0;
  for (let first = 0, last = 0; last < atMs.length; last += 1) {
    while ((atMs[last] as number) - (atMs[first] as number) >= 60_000) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

/** A run whose process is killed after `liveMs`. */
async function killedAfter(world: World, liveMs: number): Promise<void> {
  const process = mortal(world.clock);
  void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
  await world.clock.advance(liveMs);
  process.kill();
  world.kill();
}

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
  ])("hold when the machine is booted anew again and again, and its wall clock %s", async (_, jumpMs) => {
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
