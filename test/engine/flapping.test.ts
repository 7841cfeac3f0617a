/**
 * Providers that fail and answer by turns: no item ends for the provider's sake, and one that always fails ends all the same.
 */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/random.ts";
import { INPUT, OUTPUT, ok, type Reply, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT, sla: 1_440, waitMs: 3_600_000 };
const RESET: Reply = { ok: false, failure: "lost", message: "connection reset" };

const KINDS: Readonly<Record<string, () => Reply>> = {
  reset: () => RESET,
  "502": () => status(502),
  hang: () => "hang",
};

/** Up and down for `phaseMs` each; `poison` lines are never answered. */
function flapping(
  kind: string,
  { phaseMs = 1_500, poison = [] }: { readonly phaseMs?: number; readonly poison?: readonly number[] } = {},
): World {
  const world: World = new World({
    latencyMs: 200,
    config: { maxInFlight: 8, providers: { alpha: { baseUrl: "http://alpha.test/v1", timeoutMs: 5_000 } } },
    answer: (line) => {
      const isDown = Math.floor(world.clock.nowMs() / phaseMs) % 2 === 1;
      return isDown || poison.includes(line) ? (KINDS[kind] as () => Reply)() : ok(line);
    },
  });
  return world;
}

/** Lines that come one every so often. */
async function runAll(world: World, count: number) {
  world.input(count);
  const run = (await world.engine()).run(INPUT, OPTIONS);
  return world.settle(run.finished);
}

const sentFor = (world: World, line: number): number => world.sent.filter((one) => one.line === line).length;

describe.each(Object.keys(KINDS))("a provider that is up and down by turns (%s)", (kind) => {
  it.each([
    [40, 1_500],
    [400, 1_500],
    [400, 400],
    [800, 5_000],
  ])("ends no item of %i (%i ms each)", async (count, phaseMs) => {
    const world = flapping(kind, { phaseMs });
    expect(await runAll(world, count)).toMatchObject({ status: "completed", counts: { completed: count } });
  });

  it("does not keep an item that always fails from ending", async () => {
    const world = flapping(kind, { poison: [7] });
    expect(await runAll(world, 800)).toMatchObject({ counts: { completed: 799, failed: 1 } });
    expect(sentFor(world, 7)).toBeLessThanOrEqual(45);
  });
});

describe("random resets of a share of all requests", () => {
  it.each([0.05, 0.2, 0.5])("(%d) end no item of 800", async (share) => {
    const random = createRandom(11);
    const world: World = new World({
      latencyMs: 200,
      config: { maxInFlight: 16 },
      answer: (line) => (random() < share ? RESET : ok(line)),
    });
    expect(await runAll(world, 800)).toMatchObject({ counts: { completed: 800 } });
  });
});

describe("items that always break their connection", () => {
  it.each([
    ["one", 40, [7]],
    ["two", 40, [7, 8]],
    ["two of many", 400, [3, 200]],
    ["five", 400, [1, 2, 3, 4, 5]],
    ["many", 400, Array.from({ length: 40 }, (_, index) => 10 * index + 1)],
  ])("(%s of %i) end after three requests each, while others pass", async (_what, count, poison) => {
    const world: World = new World({
      latencyMs: 200,
      config: { maxInFlight: 4 },
      answer: (line) => (poison.includes(line) ? RESET : ok(line)),
    });
    expect(await runAll(world, count)).toMatchObject({
      counts: { completed: count - poison.length, failed: poison.length },
    });
    for (const line of poison) expect(sentFor(world, line), `line ${line}`).toBeLessThanOrEqual(4);
  });
});
