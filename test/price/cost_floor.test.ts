/** The lowest factors of sold work: they cover cost and margin, and change nothing else of a card. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { costFloor, priceFactor, RATE_CARD } from "../../src/price/factor.ts";
import { refundOf } from "../../src/price/sales.ts";

const share = fc.double({ min: 0, max: 2, noNaN: true });
const margin = fc.double({ min: 0, max: 10, noNaN: true });

describe("a floor", () => {
  it("covers the cost and the margin, up to the list price, with 4 decimals", () => {
    fc.assert(
      fc.property(share, margin, (costShare, part) => {
        const floor = costFloor(costShare, part);
        expect(floor).toBeGreaterThanOrEqual(Math.min(1, costShare * (1 + part)) - 1e-12);
        expect(floor).toBeLessThanOrEqual(Math.min(1, costShare * (1 + part) + 1e-4));
        expect(floor * 10_000).toBeCloseTo(Math.round(floor * 10_000), 6);
      }),
    );
    expect([costFloor(0.5, 0.1), costFloor(0.50001, 0), costFloor(1, 0.1)]).toEqual([0.55, 0.5001, 1]);
  });

  it("raises the factor of its model, and that of others to the floor of others", () => {
    const card = { ...RATE_CARD, costFloors: { models: { "a:b": 0.7 }, others: 0.9 } };
    const factorOf = (model: string, sla: number | undefined): number => priceFactor(model, sla, 0, card);
    expect([factorOf("a:b", 1_440), factorOf("a:c", 1_440)]).toEqual([0.7, 0.9]);
    expect([factorOf("a:b", 15), factorOf("a:b", undefined)]).toEqual([priceFactor("a:b", 15, 0), 1]);
  });

  it("lets a factor never rise with the sla or the volume", () => {
    const minutes = fc.integer({ min: 1, max: 43_200 });
    const tokens = fc.integer({ min: 0, max: 1e11 });
    fc.assert(
      fc.property(share, minutes, minutes, tokens, tokens, (floor, sla, longer, volume, more) => {
        const others = Math.min(1, floor);
        const card = { ...RATE_CARD, costFloors: { models: {}, others } };
        const before = priceFactor("a:b", Math.min(sla, longer), Math.min(volume, more), card);
        const after = priceFactor("a:b", Math.max(sla, longer), Math.max(volume, more), card);
        expect(after).toBeLessThanOrEqual(before);
        expect(after).toBeGreaterThanOrEqual(Math.max(0.3, others));
      }),
    );
  });
});

it("a refund is a share of the charge in whole nano-USD, at most the charge", () => {
  const usd = fc.double({ min: 0, max: 1_000, noNaN: true });
  const part = fc.double({ min: 0, max: 1, noNaN: true });
  fc.assert(
    fc.property(usd, part, (charged, given) => {
      const refund = refundOf(charged, given);
      expect(refund * 1e9).toBeCloseTo(Math.round(refund * 1e9), 3);
      expect(Math.abs(refund - charged * given)).toBeLessThanOrEqual(1.1e-9);
      expect(refund).toBeLessThanOrEqual(refundOf(charged, 1));
    }),
  );
  expect([refundOf(0.000000003, 0.5), refundOf(1, 0.1)]).toEqual([0.000000002, 0.1]);
});
