/** A key or a model that is refused to all for some seconds, and again later: no item ends for it. */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, ok, type Reply, status, World } from "./world.ts";

const REFUSALS = {
  "401": status(401, "invalid_api_key"),
  "403": status(403, "permission_denied"),
  "404": status(404, "model_not_found"),
} as const;
type Kind = keyof typeof REFUSALS;

/** `TEST_LIMIT_SEEDS` draws more. */
const SEEDS = Number(process.env["TEST_LIMIT_SEEDS"] ?? 2);

const isRefusing = (nowS: number, spells: number): boolean =>
  Array.from({ length: spells }, (_, index) => 8 + 25 * index).some(
    (fromS) => nowS >= fromS && nowS < fromS + 5,
  );

/** Answers take `fromMs` to three times that; `poisoned` lines are refused at all times. */
function worldOf(
  kind: Kind,
  seed: number,
  fromMs: number,
  spells: number,
  poisoned: readonly number[] = [],
): World {
  const random = createRandom(seed);
  const world: World = new World({
    config: { limits: { alpha: { concurrency: 12 } } },
    answer: (line): Reply =>
      isRefusing(world.clock.nowMs() / 1_000, spells) || poisoned.includes(line)
        ? { afterMs: 20, result: REFUSALS[kind] }
        : { afterMs: fromMs * (1 + 2 * random()), result: ok(line) },
  });
  return world;
}

/** The command is called again for as long as it stops with items left. */
async function countsOf(world: World): Promise<object> {
  for (let calls = 1; ; calls++) {
    const engine = await world.engine();
    const { status, counts } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    if (status !== "paused" || calls === 20) return counts;
    await world.settle(engine.close());
    await world.clock.advance(3_000);
  }
}

describe.each(Object.keys(REFUSALS) as Kind[])("refusals with %s", (kind) => {
  it.each([
    [2, 3_000],
    [2, 8_000],
    [4, 3_000],
    [4, 300],
  ])("to all, %i times, end nothing, with answers of %i ms and more", async (spells, fromMs) => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const world = worldOf(kind, seed, fromMs, spells);
      world.input(120);
      expect(await countsOf(world), `seed ${seed}`).toMatchObject({ completed: 120, failed: 0 });
    }
  });

  it("of two items end these, and lose no other item", async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const world = worldOf(kind, seed, 300, 0, [4, 40]);
      world.input(400);
      expect(await countsOf(world), `seed ${seed}`).toMatchObject({ completed: 398, failed: 2 });
      const tries = world.sent.filter(({ line }) => line === 4 || line === 40);
      expect(tries.length, `seed ${seed}`).toBeLessThanOrEqual(8);
    }
  });

  it("of one item, also to all for some seconds, end this one", async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const world = worldOf(kind, seed, 300, 1, [60]);
      world.input(450);
      expect(await countsOf(world), `seed ${seed}`).toMatchObject({ completed: 449, failed: 1 });
    }
  });
});

describe("items that are refused for their own sake", () => {
  const cases: Readonly<Record<string, Readonly<Record<number, Kind>>>> = {
    "two side by side, 404": { 4: "404", 5: "404" },
    "two side by side, 401": { 4: "401", 5: "401" },
    "one with 403 and one with 404": { 4: "403", 5: "404" },
    "two near the end": { 80: "404", 90: "404" },
    "five in a row": { 4: "403", 5: "403", 6: "403", 7: "403", 8: "403" },
  };

  it.each(
    Object.entries(cases).flatMap(([name, refused]) =>
      [
        // What is refused last, or by all that are in flight, looks like a model that is not available.
        ...(name === "five in a row" ? [] : [[2, 5_000]]),
        [8, 100],
        ...(name === "two near the end" ? [] : [[64, 100]]),
      ].map(([maxInFlight = 1, latencyMs = 1]) => [name, maxInFlight, latencyMs, refused] as const),
    ),
  )("%s: end in one call, %i in flight, answers of %i ms", async (_, maxInFlight, latencyMs, refused) => {
    const world = new World({
      config: { maxInFlight },
      latencyMs,
      answer: (line): Reply => {
        const kind = refused[line];
        return kind === undefined ? ok(line) : { afterMs: 50, result: REFUSALS[kind] };
      },
    });
    world.input(100);
    const engine = await world.engine();
    const failed = Object.keys(refused).length;
    expect(await world.settle(engine.run(INPUT, { out: OUTPUT }).finished)).toMatchObject({
      status: "completed",
      counts: { completed: 100 - failed, failed },
    });
    const tries = world.sent.filter(({ line }) => refused[line] !== undefined);
    // What is refused before the key's first answer counts for nothing; then the items are tried at once, not a minute later.
    const isEarly = tries.some(({ line, atMs }) => refused[line] === "401" && atMs + 50 < latencyMs);
    expect(tries.length).toBeLessThanOrEqual((isEarly ? 4 : 3) * failed);
    if (isEarly) expect(world.clock.nowMs()).toBeLessThan(3_000);
  });

  it.each<Kind>(["401", "403", "404"])(
    "let all others be answered in one call, in 15 s (%s)",
    async (kind) => {
      const world = new World({
        config: { maxInFlight: 16 },
        latencyMs: 300,
        answer: (line): Reply =>
          line > 240 && line <= 300 ? { afterMs: 20, result: REFUSALS[kind] } : ok(line),
      });
      world.input(400);
      const engine = await world.engine();
      const { counts } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
      expect(counts.completed).toBe(340);
      const others = world.sent.filter(({ line }) => line <= 240 || line > 300);
      expect(Math.max(...others.map(({ atMs }) => atMs))).toBeLessThan(15_000);
    },
  );

  it.each([
    [0.05, 100],
    [0.2, 100],
    [0.5, 100],
    [0.05, 20],
    [0.2, 20],
    [0.5, 20],
  ])("are few where a share of %d of all requests is refused, after %i ms", async (share, afterMs) => {
    for (let seed = 1; seed <= 2; seed++) {
      const random = createRandom(seed);
      const world = new World({
        config: { maxInFlight: 16 },
        latencyMs: 100,
        answer: (line): Reply => (random() < share ? { afterMs, result: REFUSALS["403"] } : ok(line)),
      });
      world.input(300);
      const { counts } = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
      expect(counts.failed, `seed ${seed}`).toBeLessThanOrEqual(2);
    }
  });
});
