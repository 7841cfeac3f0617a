import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Budget, Cap, type MoneyReservation } from "../../src/price/budget.ts";
import { costOf, worstCaseUsd } from "../../src/price/cost.ts";
import {
  checkRateCard,
  type FactorRate,
  priceFactor,
  RATE_CARD,
  type RateCard,
} from "../../src/price/factor.ts";
import { type BasePrice, ceilingOf, type PriceRates } from "../../src/price/rates.ts";

const usd = fc.double({ min: 0, max: 1_000, noNaN: true });
const tokenCount = fc.integer({ min: 0, max: 5_000_000 });

const rate: fc.Arbitrary<FactorRate> = fc.record({
  floor: fc.double({ min: 0.3, max: 1, noNaN: true }),
  laneDiscount: fc.double({ min: 0, max: 0.7, noNaN: true }),
  laneFullMinutes: fc.integer({ min: 1, max: 100_000 }),
  laneHalfMinutes: fc.double({ min: 1, max: 1e6, noNaN: true }),
  poolDiscount: fc.double({ min: 0, max: 0.7, noNaN: true }),
  poolFullMinutes: fc.integer({ min: 1, max: 100_000 }),
  poolHalfMinutes: fc.double({ min: 1, max: 1e6, noNaN: true }),
  volumeFullTokens: fc.double({ min: 1, max: 1e15, noNaN: true }),
  volumeHalfTokens: fc.double({ min: 1, max: 1e15, noNaN: true }),
});
const card: fc.Arbitrary<RateCard> = fc.oneof(
  fc.constant(RATE_CARD),
  rate.map((standard) => ({ standard, models: {} })),
);
const model = fc.constantFrom("openai:gpt-6-sol", "deepseek:deepseek-v4-pro", "vllm:x");
const sla = fc.integer({ min: 1, max: 43_200 });
const volume = fc.oneof(fc.integer({ min: 0, max: 1e12 }), fc.double({ min: 0, max: 1e18, noNaN: true }));

describe("the price factor", () => {
  it("lies within [0.3, 1] and the floor for every card, and is 1 without an sla", () => {
    fc.assert(
      fc.property(card, model, sla, volume, (rates, name, minutes, tokens) => {
        checkRateCard(rates);
        const factor = priceFactor(name, minutes, tokens, rates);
        expect(factor).toBeGreaterThanOrEqual(0.3);
        expect(factor).toBeLessThanOrEqual(1);
        expect(Math.round(factor * 1e4) / 1e4).toBe(factor);
        expect(priceFactor(name, undefined, tokens, rates)).toBe(1);
      }),
      { numRuns: 1_000 },
    );
  });

  it("never rises with the sla", () => {
    fc.assert(
      fc.property(card, model, sla, sla, volume, (rates, name, a, b, tokens) => {
        const [shorter, longer] = a < b ? [a, b] : [b, a];
        expect(priceFactor(name, longer, tokens, rates)).toBeLessThanOrEqual(
          priceFactor(name, shorter, tokens, rates),
        );
        expect(priceFactor(name, shorter + 1, tokens, rates)).toBeLessThanOrEqual(
          priceFactor(name, shorter, tokens, rates),
        );
      }),
      { numRuns: 2_000 },
    );
  });

  it("never rises with the volume, not even between neighbouring numbers", () => {
    fc.assert(
      fc.property(card, model, sla, volume, volume, (rates, name, minutes, a, b) => {
        const [smaller, larger] = a < b ? [a, b] : [b, a];
        const at = (tokens: number): number => priceFactor(name, minutes, tokens, rates);
        expect(at(larger)).toBeLessThanOrEqual(at(smaller));
        expect(at(smaller * (1 + Number.EPSILON))).toBeLessThanOrEqual(at(smaller));
      }),
      { numRuns: 2_000 },
    );
  });

  it("is continuous on the published card: a minute or a percent of volume more never takes 0.01 off", () => {
    for (let minutes = 1; minutes < 12_000; minutes += 7)
      for (const tokens of [0, 1e6, 1e8, 1e10]) {
        const here = priceFactor("openai:x", minutes, tokens);
        expect(here - priceFactor("openai:x", minutes + 1, tokens)).toBeLessThan(0.01);
        expect(here - priceFactor("openai:x", minutes, tokens * 1.01)).toBeLessThan(0.01);
      }
  });
});

const rates: fc.Arbitrary<PriceRates> = fc.record({
  inputUsdPerMillion: usd,
  cachedUsdPerMillion: usd,
  cacheWriteUsdPerMillion: usd,
  outputUsdPerMillion: usd,
});
const price: fc.Arbitrary<BasePrice> = fc
  .record({
    base: rates,
    tiers: fc.uniqueArray(fc.integer({ min: 0, max: 1_000_000 }), { maxLength: 3 }),
    higher: rates,
  })
  .map(({ base, tiers, higher }) => {
    const steps = tiers.sort((a, b) => a - b).map((start) => ({ start, ...higher }));
    return {
      model: "x:y",
      matchedModel: "y",
      isExact: true,
      ...base,
      tiers: steps,
      ceiling: ceilingOf([{ ...base, tiers: steps }]),
      source: "config",
      asOf: "2026-11-20",
      validFromWallMs: Number.NEGATIVE_INFINITY,
      validUntilWallMs: Number.POSITIVE_INFINITY,
    };
  });

describe("the worst case", () => {
  it("is never below the cost of an attempt that stays within its bounds", () => {
    fc.assert(
      fc.property(
        price,
        tokenCount,
        tokenCount,
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 4, maxLength: 4 }),
        (base, input, output, shares) => {
          const [inputShare = 0, cachedShare = 0, writtenShare = 0, outputShare = 0] = shares;
          const used = Math.floor(input * inputShare);
          const cachedTokens = Math.floor(used * cachedShare);
          const usage = {
            inputTokens: used,
            cachedTokens,
            cacheWriteTokens: Math.floor((used - cachedTokens) * writtenShare),
            outputTokens: Math.floor(output * outputShare),
            reasoningTokens: 0,
            isEstimated: false,
          };
          const cost = costOf(usage, base, { factor: 1, laneFactor: 1 });
          const bound = worstCaseUsd({ inputTokens: input, maxOutputTokens: output }, base);
          expect(cost.listUsd).toBeLessThanOrEqual(bound * (1 + 1e-12));
          expect(cost.isEstimated).toBe(false);
        },
      ),
      { numRuns: 1_000 },
    );
  });
});

describe("the cost of an answer", () => {
  it("is finite and not negative for any numbers that a provider may send", () => {
    const any = fc.oneof(
      fc.double(),
      fc.integer(),
      fc.constantFrom(Number.NaN, -0, 2 ** 53, Number.POSITIVE_INFINITY),
    );
    const usage = fc.record(
      {
        inputTokens: any,
        cachedTokens: any,
        cacheWriteTokens: any,
        outputTokens: any,
        reasoningTokens: any,
        isEstimated: fc.boolean(),
        chargedUsd: any,
      },
      {
        requiredKeys: [
          "inputTokens",
          "cachedTokens",
          "cacheWriteTokens",
          "outputTokens",
          "reasoningTokens",
          "isEstimated",
        ],
      },
    );
    fc.assert(
      fc.property(usage, fc.option(price, { nil: undefined }), any, any, (used, base, factor, laneFactor) => {
        const {
          listUsd,
          usd: charged,
          billedUsd,
        } = costOf(used, base, {
          factor: Math.min(1, Math.abs(factor)),
          laneFactor: Math.min(2, Math.max(0.25, Math.abs(laneFactor))),
        });
        for (const amount of [listUsd, charged, billedUsd]) {
          expect(Number.isNaN(amount)).toBe(false);
          expect(amount).toBeGreaterThanOrEqual(0);
          expect(amount === Number.POSITIVE_INFINITY).toBe(false);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("the cost cap", () => {
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ reserve: fc.double({ min: 0, max: 0.6, noNaN: true }) }) },
    {
      weight: 2,
      arbitrary: fc.record({ settle: fc.nat(), share: fc.double({ min: 0, max: 1, noNaN: true }) }),
    },
  );

  it("is never overshot under any interleaving, and its sums are exact", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 5, noNaN: true }),
        fc.array(step, { maxLength: 200 }),
        (capUsd, steps) => {
          const cap = new Cap(capUsd);
          const budget = new Budget([cap]);
          const open: MoneyReservation[] = [];
          let spentNanos = 0n;
          let trueUsd = 0;
          for (const move of steps) {
            if ("reserve" in move) {
              const answer = budget.reserve(move.reserve);
              if (answer.ok) open.push(answer.reservation);
              else if (answer.reason === "wait")
                expect(move.reserve).toBeLessThanOrEqual(capUsd - cap.spentUsd + 1e-8);
              else expect(move.reserve).toBeGreaterThan(capUsd - cap.spentUsd - 1e-8);
            } else if (open.length > 0) {
              const [reservation] = open.splice(move.settle % open.length, 1);
              if (reservation === undefined) continue;
              const actual = reservation.usd * move.share;
              const before = BigInt(Math.round(cap.spentUsd * 1e9));
              budget.settle(reservation, { billedUsd: actual, ambiguousUsd: 0 });
              const after = BigInt(Math.round(cap.spentUsd * 1e9));
              spentNanos += after - before;
              trueUsd += actual;
              expect(Number(after - before)).toBeGreaterThanOrEqual(actual * 1e9 * (1 - 1e-15));
              expect(Number(after - before)).toBeLessThanOrEqual(actual * 1e9 + 1);
            }
            expect(cap.spentUsd + cap.heldUsd).toBeLessThanOrEqual(capUsd * (1 + 1e-15) + 1e-15);
            expect(cap.spentUsd).toBeLessThanOrEqual(capUsd);
          }
          expect(BigInt(Math.round(cap.spentUsd * 1e9))).toBe(spentNanos);
          expect(trueUsd).toBeLessThanOrEqual(capUsd * (1 + 1e-12));
          for (const reservation of open) budget.settle(reservation, { billedUsd: 0, ambiguousUsd: 0 });
          expect(cap.heldUsd).toBe(0);
        },
      ),
      { numRuns: 300 },
    );
  });
});
