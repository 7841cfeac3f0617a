/** Where items go, and how long work takes. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type LaneTerms, realtimeLane } from "../../src/queue/lanes.ts";
import { type Capacity, needMs, place } from "../../src/queue/planner.ts";

const NEVER = Number.POSITIVE_INFINITY;

/** A lane that is named by its provider. */
function lane(provider: string, priceFactor: number): LaneTerms {
  return { ...realtimeLane(provider, "m"), priceFactor };
}

function work(items: number, deadlineMs: number) {
  return { items, inputTokens: items * 100, outputTokens: items * 10, deadlineMs };
}

function ticket(items: number, deadlineMs: number) {
  return { items, inputTokens: items * 100, expectedOutputTokens: items * 10, deadlineMs };
}

/** Lanes that do so much, at time 0. */
function doing(capacities: Readonly<Record<string, Capacity>>) {
  return {
    nowMs: () => 0,
    capacityOf: ({ provider }: LaneTerms) => capacities[provider] ?? { itemMs: NEVER },
  };
}

describe("needMs", () => {
  it("is what the tightest of rate and concurrency demands, at least one item's time", () => {
    expect(needMs(work(1, 0), { itemMs: 2_000 })).toBe(2_000);
    expect(needMs(work(100, 0), { itemMs: 2_000, concurrency: 8 })).toBe(26_000);
    expect(needMs(work(600, 0), { itemMs: 10, requestsPerMinute: 60 })).toBe(600_000);
    expect(needMs(work(600, 0), { itemMs: 10, tokensPerMinute: 6_600 })).toBe(600_000);
    expect(needMs(work(600, 0), { itemMs: 10, inputTokensPerMinute: 60_000 })).toBe(60_000);
    expect(needMs(work(600, 0), { itemMs: 10, outputTokensPerMinute: 6_000, waitingMs: 5 })).toBe(60_005);
    expect(needMs(work(0, 0), { itemMs: 10 })).toBe(0);
    expect(needMs(work(1, 0), { itemMs: 10, requestsPerMinute: 0 })).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("place", () => {
  const lanes = [lane("dear", 1), lane("cheap", 0.5), lane("slow", 0.3)] as const;
  const now = doing({
    dear: { itemMs: 1_000, requestsPerMinute: 600 },
    cheap: { itemMs: 60_000, requestsPerMinute: 60 },
    slow: { itemMs: 1_000, requestsPerMinute: 6 },
  });

  it("takes the cheapest lane that is in time", () => {
    expect(place(ticket(600, 7_000_000), { lanes }, now).provider).toBe("slow");
    expect(place(ticket(600, 5_999_999), { lanes }, now).provider).toBe("cheap");
    expect(place(ticket(600, 120_000), { lanes }, now).provider).toBe("dear");
  });

  it("takes the fastest lane without a deadline, and when none is in time", () => {
    expect(place(ticket(600, NEVER), { lanes }, now).provider).toBe("dear");
    expect(place(ticket(600, 30_000), { lanes }, now).provider).toBe("dear");
  });

  it("takes the faster of two at one price, and the cheaper of two that are equally fast", () => {
    const twins = doing({ a: { itemMs: 20 }, b: { itemMs: 10 }, c: { itemMs: 10 } });
    expect(place(ticket(1, 100), { lanes: [lane("a", 1), lane("b", 1)] }, twins).provider).toBe("b");
    expect(place(ticket(1, NEVER), { lanes: [lane("b", 1), lane("c", 0.5)] }, twins).provider).toBe("c");
    expect(place(ticket(1, 5), { lanes: [lane("c", 0.5), lane("b", 1)] }, twins).provider).toBe("c");
  });

  it("leaves a held model in the lane that holds it, and asks nothing where there is no choice", () => {
    const unasked = {
      nowMs: () => expect.unreachable(),
      capacityOf: () => expect.unreachable(),
    };
    const held = lane("holding", 1);
    expect(place(ticket(1, NEVER), { lanes, held }, unasked)).toBe(held);
    expect(place(ticket(1, NEVER), { lanes: [lanes[0]] }, unasked)).toBe(lanes[0]);
  });

  it("never picks a dearer lane than one that is in time, nor a late one while one is in time", () => {
    const drawnLanes = fc.array(
      fc.record({
        priceFactor: fc.constantFrom(0.3, 0.5, 0.7, 1),
        itemMs: fc.integer({ min: 1, max: 200_000 }),
      }),
      { minLength: 1, maxLength: 8 },
    );
    fc.assert(
      fc.property(drawnLanes, fc.integer({ min: 0, max: 200_000 }), (drawn, deadlineMs) => {
        const [first, ...others] = drawn.map(({ priceFactor }, index) => lane(String(index), priceFactor));
        if (first === undefined) return;
        const capacities = Object.fromEntries(drawn.map(({ itemMs }, index) => [index, { itemMs }]));
        const placed = place(ticket(1, deadlineMs), { lanes: [first, ...others] }, doing(capacities));
        const picked = drawn[Number(placed.provider)]!;
        const inTime = drawn.filter(({ itemMs }) => itemMs <= deadlineMs);
        if (inTime.length > 0) {
          expect(picked.itemMs).toBeLessThanOrEqual(deadlineMs);
          expect(picked.priceFactor).toBe(Math.min(...inTime.map(({ priceFactor }) => priceFactor)));
        } else expect(picked.itemMs).toBe(Math.min(...drawn.map(({ itemMs }) => itemMs)));
      }),
    );
  });
});
