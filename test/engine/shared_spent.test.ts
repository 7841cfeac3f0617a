/** What requests for several items took, shared among them. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NOTHING_SPENT, type Spent } from "../../src/engine/journal/journal.ts";
import { SpentShares } from "../../src/engine/journal/shared_spent.ts";

const tokens = fc.integer({ min: 0, max: 1_000_000 });
const usd = fc.double({ min: 0, max: 10, noNaN: true });
const spent = fc.record({ inputTokens: tokens, outputTokens: tokens, listUsd: usd, billedUsd: usd });
const loads = fc.array(fc.integer({ min: 0, max: 500 }), { minLength: 1, maxLength: 40 });

function whole(some: Partial<Spent>): Spent {
  return { ...NOTHING_SPENT, ...some, priceNumber: 1 };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}

describe("the shares of several items", () => {
  it("add up to all that their requests took, in whole tokens, however often they were asked for", () => {
    fc.assert(
      fc.property(
        loads,
        fc.array(spent, { minLength: 1, maxLength: 4 }),
        fc.boolean(),
        (each, taken, asks) => {
          const shares = new SpentShares(each);
          for (const one of taken) {
            shares.took(whole(one));
            if (asks) shares.of(0);
          }
          const all = each.map((_, place) => shares.of(place));
          expect(sum(all.map(({ inputTokens }) => inputTokens))).toBe(
            sum(taken.map((one) => one.inputTokens)),
          );
          expect(sum(all.map(({ outputTokens }) => outputTokens))).toBe(
            sum(taken.map((one) => one.outputTokens)),
          );
          expect(sum(all.map(({ billedUsd }) => billedUsd))).toBeCloseTo(
            sum(taken.map((one) => one.billedUsd)),
            6,
          );
          expect(all.every(({ inputTokens }) => Number.isInteger(inputTokens) && inputTokens >= 0)).toBe(
            true,
          );
          expect(sum(each.map((_, place) => shares.shareOf(place)))).toBeCloseTo(1, 9);
        },
      ),
    );
  });

  it("have what earlier requests took of each besides", () => {
    const before = [whole({ inputTokens: 5, billedUsd: 1 }), NOTHING_SPENT];
    const shares = new SpentShares([10, 30], before);
    expect(shares.of(0)).toEqual(before[0]);
    shares.took(whole({ inputTokens: 40, billedUsd: 4 }));
    expect([shares.of(0), shares.of(1)]).toEqual([
      whole({ inputTokens: 15, billedUsd: 2 }),
      whole({ inputTokens: 30, billedUsd: 3 }),
    ]);
  });
});
