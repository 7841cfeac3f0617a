/** Laws of the bounds of what requests may cost: how many are in flight while a bound is not believed, and how high it is. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type BoundedRequest, CostBounds } from "../../src/engine/items/cost_bounds.ts";
import { LearntStore } from "../../src/store/learnt.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";

const MODEL = "echo:m";
const UNPROVEN_MAX = 4;
const LIMIT = 100;

const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ is: fc.constant("begin" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      is: fc.constant("answer" as const),
      place: fc.nat(),
      /** What it cost, of the bound before any factor. */
      share: fc.constantFrom(0.5, 1, 1, 1, 1.2, 2, 3),
    }),
  },
  { weight: 1, arbitrary: fc.record({ is: fc.constant("give back" as const), place: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ is: fc.constant("fail" as const), place: fc.nat() }) },
);

interface InFlight {
  readonly request: BoundedRequest;
  readonly factor: number;
}

describe("the bound of a model's requests", () => {
  it("lets 4 in flight until one is kept, and none beside those that were sent before it was raised", async () => {
    const learnt = await LearntStore.open({
      folder: undefined,
      disk: new MemoryDisk(),
      clock: new FakeClock(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        learnt.put("output_limit", "echo m", "unproven");
        const bounds = new CostBounds(learnt, []);
        let inFlight: InFlight[] = [];
        let highest = 1;
        let [isProven, isBroken] = [false, false];
        let fruitless = 0;
        for (const given of steps) {
          const isOnTrial = !isProven && !isBroken && inFlight.length > 0 && fruitless < UNPROVEN_MAX;
          expect(bounds.isOnTrial(MODEL)).toBe(isOnTrial);
          const isOutdated = inFlight.some(({ factor }) => factor < bounds.factorOf(MODEL));
          const isTrusted = isProven && !isBroken;
          expect(bounds.mayBegin(MODEL)).toBe(!isOutdated && (isTrusted || inFlight.length < UNPROVEN_MAX));
          if (given.is === "begin") {
            if (bounds.mayBegin(MODEL))
              inFlight.push({ request: bounds.begun(MODEL, true), factor: bounds.factorOf(MODEL) });
            continue;
          }
          const ended = inFlight[given.place % Math.max(1, inFlight.length)];
          if (ended === undefined) continue;
          const { factor } = ended;
          if (given.is === "answer") {
            const tokens = { outputTokens: LIMIT, outputLimit: LIMIT };
            bounds.answered(MODEL, { billedUsd: given.share, mostUsd: factor, factor, ...tokens });
            if (given.share > factor * (1 + 1e-6)) {
              isBroken = true;
              if (given.share > highest * (1 + 1e-6)) highest = Math.max(highest, given.share * 1.1);
            } else isProven = true;
          }
          if (given.is === "fail" && !isProven && !isBroken) fruitless += 1;
          bounds.ended(ended.request, given.is !== "give back");
          inFlight = inFlight.filter((one) => one !== ended);
          expect(bounds.factorOf(MODEL)).toBeCloseTo(highest, 9);
        }
      }),
      { numRuns: 500 },
    );
  });
});
