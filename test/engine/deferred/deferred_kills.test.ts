/** Kills of processes beside deferred requests: nothing is submitted twice, and what nobody knows is in doubt. */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../../src/testing/random.ts";
import { wrongsOf } from "../batches/books.ts";
import { DAY_MINUTES, type DeferredWorld, deferredWorld, MODEL } from "./deferred_world.ts";

const ITEMS = 3;
const TIMES = { p50: 20_000, p90: 60_000, p99: 90_000 };

/** Ends the work in one more process. Returns what is wrong then. */
async function endedWrong({ world, fake }: DeferredWorld, items: number): Promise<string[]> {
  const summary = await world.run({ sla: DAY_MINUTES });
  const wrong = wrongsOf(world, fake, items);
  if (summary.counts.completed !== items) wrong.push(JSON.stringify(summary.counts));
  if (fake.ledger.batches.size > items) wrong.push(`${fake.ledger.batches.size} submissions`);
  for (const [prompt, charges] of fake.ledger.byPrompt()) {
    const deferred = charges.filter(({ tier }) => tier === "deferred").length;
    if (deferred > 1) wrong.push(`${prompt}: deferred ${deferred} times`);
  }
  const twice = [...fake.ledger.byPrompt()].filter(([, charges]) => charges.length > 1);
  const doubted = world.lines().filter(({ cost }) => (cost?.ambiguous_usd ?? 0) > 0);
  if (twice.length > doubted.length) wrong.push(`${twice.length} paid twice, ${doubted.length} in doubt`);
  return wrong;
}

describe("kills beside deferred requests", () => {
  it.each(["before", "after"] as const)(
    "submit each item once: exactly %s each write and each call",
    async (when) => {
      let steps = 0;
      for (let nth = 1; ; nth += 1) {
        const deferred = deferredWorld({ times: TIMES });
        deferred.world.input(ITEMS, MODEL);
        const random = createRandom(nth);
        if (!(await deferred.world.killedAt(nth, when, { sla: DAY_MINUTES }, random))) break;
        expect(await endedWrong(deferred, ITEMS), `${when} step ${nth}`).toEqual([]);
        steps = nth;
      }
      expect(steps).toBeGreaterThan(10 * ITEMS);
    },
  );

  it.each([1, 2, 3, 4, 5, 6])("submit each item once: seed %i", async (seed) => {
    const random = createRandom(seed);
    const deferred = deferredWorld({ seed, times: { p50: 120_000, p90: 600_000, p99: 1_800_000 } });
    deferred.world.input(20, MODEL);
    for (const scaleMs of [50, 2_000, 60_000, 900_000])
      await deferred.world.killedAfter(random() * scaleMs, { sla: DAY_MINUTES }, random);
    expect(await endedWrong(deferred, 20)).toEqual([]);
  });
});
