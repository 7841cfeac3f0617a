import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { checkRateCard, priceFactor, RATE_CARD, type RateCard } from "../../src/price/factor.ts";

const SLAS = { "15 m": 15, "1 h": 60, "4 h": 240, "24 h": 1_440, "7 d": 10_080, "30 d": 43_200 };
const VOLUMES = { "10 k": 1e4, "1 M": 1e6, "100 M": 1e8, "10 G": 1e10 };
const GPT = "openai:gpt-6-sol";

describe("the price factor", () => {
  it("is 1 without an sla, for any volume", () => {
    for (const tokens of [0, 1e6, 1e12]) expect(priceFactor(GPT, undefined, tokens)).toBe(1);
  });

  it("reaches half price at 24 hours and 0.3 at 7 days and 10 G tokens", () => {
    expect(priceFactor(GPT, 1_440, 0)).toBe(0.5);
    expect(priceFactor(GPT, 10_080, 1e10)).toBe(0.3);
    expect(priceFactor(GPT, 43_200, 1e15)).toBe(0.3);
  });

  it("takes next to nothing off for a minute", () => {
    expect(priceFactor(GPT, 1, 1e10)).toBeGreaterThan(0.99);
  });

  it("gives a model without a cheap lane only the discount for volume", () => {
    for (const model of ["deepseek:deepseek-v4-flash", "together:some-model"]) {
      expect(priceFactor(model, 1_440, 0)).toBe(1);
      expect(priceFactor(model, 43_200, 1e12)).toBe(0.8);
    }
  });

  it("takes the rates of a model from the configured card", () => {
    const card: RateCard = {
      standard: RATE_CARD.standard,
      models: { "openai:*": { floor: 0.6 }, [GPT]: { floor: 0.45, laneFullMinutes: 60 } },
    };
    expect(priceFactor("openai:gpt-6-luna", 1_440, 0, card)).toBe(0.6);
    expect(priceFactor(GPT, 60, 0, card)).toBe(0.5);
    expect(priceFactor(GPT, 43_200, 1e12, card)).toBe(0.45);
    expect(priceFactor("anthropic:claude-haiku-4-5", 1_440, 0, card)).toBe(0.5);
  });

  it("counts nonsense as no volume", () => {
    for (const tokens of [Number.NaN, -1]) expect(priceFactor(GPT, 1_440, tokens)).toBe(0.5);
  });

  it("is published: the table in the reference is what it computes", () => {
    const page = readFileSync("docs/reference/price-factor.md", "utf8");
    const rows = Object.entries(SLAS).map(([label, minutes]) => {
      const factors = Object.values(VOLUMES).map((tokens) => priceFactor(GPT, minutes, tokens).toFixed(4));
      return `| ${[label, ...factors].join(" | ")} |`;
    });
    expect(page).toContain(
      [`| sla | ${Object.keys(VOLUMES).join(" | ")} |`, "|---|---|---|---|---|", ...rows].join("\n"),
    );
  });

  it("is published: the rate card in the reference is the default one", () => {
    const page = readFileSync("docs/reference/price-factor.md", "utf8");
    const block = /```json\n([\s\S]*?)```/.exec(page)?.[1] ?? "";
    expect(JSON.parse(block)).toEqual(RATE_CARD);
    expect(() => checkRateCard(RATE_CARD)).not.toThrow();
  });
});

describe("a rate card", () => {
  it("is refused where a rate is out of its range", () => {
    const refuse = (models: RateCard["models"], message: RegExp): void =>
      expect(() => checkRateCard({ standard: RATE_CARD.standard, models })).toThrow(message);
    refuse({ "openai:*": { floor: 0.2 } }, /openai:\*\.floor must be from 0\.3 to 1, got 0\.2/);
    refuse({ "openai:*": { laneDiscount: -0.1 } }, /laneDiscount/);
    refuse({ "openai:*": { poolFullMinutes: 0 } }, /poolFullMinutes/);
    refuse({ "openai:*": { volumeHalfTokens: Number.NaN } }, /volumeHalfTokens/);
    refuse({ gpt: {} }, /key must be/);
    expect(() => checkRateCard({ standard: { ...RATE_CARD.standard, floor: 2 }, models: {} })).toThrow(
      /standard\.floor/,
    );
  });
});
