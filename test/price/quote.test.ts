import { describe, expect, it } from "vitest";
import { priceFactor } from "../../src/price/factor.ts";
import { PriceBook } from "../../src/price/price_book.ts";
import { type ModelTotals, type QuoteInput, quote } from "../../src/price/quote.ts";
import { timeNeeded } from "../../src/price/quote_time.ts";
import type { LimitSettings } from "../../src/work/limits.ts";

const NOON = Date.parse("2026-11-20T12:00:00Z");
const book = new PriceBook();

function input(totals: readonly ModelTotals[], limits: LimitSettings = {}): QuoteInput {
  return {
    totals,
    wallMs: NOON,
    slasMinutes: [60, 1_440],
    price: (model) => book.price(model, NOON),
    rejectedLines: 0,
    volumeTokens: sumOf(totals),
    limits: (model) => [{ group: model.split(":")[0] ?? "", limits }],
  };
}

const sumOf = (rows: readonly ModelTotals[]): number =>
  rows.reduce((sum, row) => sum + row.inputTokens + row.expectedOutputTokens, 0);

function totals(model: string, given: Partial<ModelTotals> = {}): ModelTotals {
  return {
    model,
    items: 1_000,
    inputTokens: 1_000_000,
    isEstimated: false,
    expectedOutputTokens: 512_000,
    basis: "default 512",
    ...given,
  };
}

describe("a quote", () => {
  it("gives tokens, list price, price at each sla, and the source of the price", () => {
    const quoted = quote(input([totals("openai:gpt-6-sol")]));
    expect(quoted).toMatchObject({
      object: "quote",
      currency: "usd",
      priced_at: "2026-11-20T12:00:00.000Z",
      items: 1_000,
      input_tokens: 1_000_000,
      input_tokens_estimated: false,
      expected_output_tokens: 512_000,
      list_usd: 7.12,
      unpriced_models: [],
    });
    expect(quoted.models[0]).toMatchObject({
      model: "openai:gpt-6-sol",
      expected_output_basis: ["default 512"],
      price: {
        source: "genai-prices 0.1.8",
        as_of: "2026-09-23",
        matched_model: "gpt-6-sol",
        is_exact: true,
        input_usd_per_million: 2,
        output_usd_per_million: 10,
        valid_until: null,
      },
      list_usd: 7.12,
    });
    expect(quoted.slas).toEqual([
      { sla_minutes: 60, price_factor: 0.8193, usd: 5.833416, is_feasible: true },
      { sla_minutes: 1_440, price_factor: 0.4983, usd: 3.547896, is_feasible: true },
    ]);
  });

  it("sums models and weighs their factors by money", () => {
    const quoted = quote(input([totals("openai:gpt-6-sol"), totals("deepseek:deepseek-v4-flash")]));
    const [gpt, deepseek] = quoted.models;
    expect(deepseek?.list_usd).toBe(0.55792);
    expect(quoted.list_usd).toBe(7.67792);
    const day = quoted.slas[1];
    expect(day?.usd).toBeCloseTo((gpt?.slas[1]?.usd ?? 0) + (deepseek?.slas[1]?.usd ?? 0), 9);
    expect(day?.price_factor).toBeCloseTo((day?.usd ?? 0) / 7.67792, 4);
    expect(deepseek?.price?.valid_until).toBe("2026-11-23T01:00:00.000Z");
  });

  it("flags models without a price and leaves them out of sums", () => {
    const quoted = quote(input([totals("openai:gpt-6.1-sol"), totals("openai:gpt-6-sol")]));
    expect(quoted.unpriced_models).toEqual(["openai:gpt-6.1-sol"]);
    expect(quoted.models[0]).toMatchObject({ price: null, list_usd: null });
    expect(quoted.models[0]?.slas[0]).toMatchObject({ usd: null });
    expect(quoted.models[0]?.slas[0]?.price_factor).toBeLessThan(1);
    expect(quoted.list_usd).toBe(7.12);
    expect(quoted.items).toBe(2_000);
  });

  it("takes the factor of the whole volume for each model, and tells how many lines hold no item", () => {
    const rows = [totals("openai:gpt-6-sol"), totals("openai:gpt-6-luna")];
    const quoted = quote({ ...input(rows), volumeTokens: 1e10, rejectedLines: 3 });
    expect(quoted.rejected_lines).toBe(3);
    for (const { model, slas } of quoted.models)
      expect(slas.map((sla) => sla.price_factor)).toEqual(
        [60, 1_440].map((sla) => priceFactor(model, sla, 1e10)),
      );
  });

  it("prices own servers at zero without calling them unpriced", () => {
    const quoted = quote(input([totals("vllm:llama")]));
    expect(quoted).toMatchObject({ list_usd: 0, unpriced_models: [] });
    const volume = sumOf([totals("vllm:llama")]);
    expect(quoted.slas[0]).toMatchObject({ usd: 0, price_factor: priceFactor("vllm:llama", 60, volume) });
  });

  it("tells prices found by a similar name, estimated counts and each basis", () => {
    const quoted = quote(
      input([
        totals("anthropic:claude-sonnet-5-5", { isEstimated: true, basis: "learnt p90" }),
        totals("anthropic:claude-sonnet-5-5", { basis: "max_output_tokens of the items" }),
      ]),
    );
    expect(quoted.input_tokens_estimated).toBe(true);
    expect(quoted.models).toHaveLength(1);
    expect(quoted.models[0]?.price?.is_exact).toBe(false);
    expect(quoted.models[0]?.expected_output_basis).toEqual(["learnt p90", "max_output_tokens of the items"]);
    expect(quoted.models[0]?.input_tokens).toBe(2_000_000);
  });

  it("prices rows of long requests by their tier", () => {
    const long = totals("openai:gpt-6-sol", { items: 10, inputTokens: 3_000_000, expectedOutputTokens: 0 });
    const short = totals("openai:gpt-6-sol", { expectedOutputTokens: 0 });
    expect(quote(input([long])).list_usd).toBe(12);
    expect(quote(input([short, long])).list_usd).toBe(14);
  });

  it("is never NaN, and plain JSON, whatever the totals are", () => {
    const nonsense = totals("openai:gpt-6-sol", {
      items: Number.NaN,
      inputTokens: -5,
      expectedOutputTokens: Number.POSITIVE_INFINITY,
    });
    for (const rows of [
      [],
      [nonsense],
      [nonsense, totals("not a model")],
      [totals("vllm:x", { items: 0 })],
    ]) {
      const quoted = quote(input(rows, { requestsPerMinute: 5, concurrency: 2 }));
      expect(JSON.parse(JSON.stringify(quoted))).toEqual(quoted);
      expect(Number.isFinite(quoted.list_usd) && Number.isFinite(quoted.time.seconds)).toBe(true);
    }
    expect(quote(input([])).time).toEqual({ seconds: 0, bound_by: "nothing" });
  });
});

describe("the time that work needs", () => {
  const load = {
    items: 6_000,
    inputTokens: 600_000,
    outputTokens: 300_000,
    busySeconds: 12_000,
    latencySeconds: 2,
  };

  it("is set by the narrowest limit, and the last answer's latency comes on top", () => {
    expect(timeNeeded(load, { requestsPerMinute: 600 })).toEqual({
      seconds: 602,
      boundBy: "requests_per_minute",
    });
    expect(timeNeeded(load, { requestsPerMinute: 600, tokensPerMinute: 30_000 })).toEqual({
      seconds: 1_802,
      boundBy: "tokens_per_minute",
    });
    expect(timeNeeded(load, { inputTokensPerMinute: 60_000 }).boundBy).toBe("input_tokens_per_minute");
    expect(timeNeeded(load, { outputTokensPerMinute: 30_000 }).seconds).toBe(602);
    expect(timeNeeded(load, { concurrency: 10 })).toEqual({ seconds: 1_200, boundBy: "concurrency" });
  });

  it("is one latency without limits, and nothing without work", () => {
    expect(timeNeeded(load, {})).toEqual({ seconds: 2, boundBy: "latency" });
    expect(timeNeeded({ ...load, items: 0 }, { requestsPerMinute: 1 })).toEqual({
      seconds: 0,
      boundBy: "nothing",
    });
  });

  it("decides whether an sla is feasible", () => {
    const quoted = quote(input([totals("openai:gpt-6-sol")], { requestsPerMinute: 5 }));
    expect(quoted.time.bound_by).toBe("requests_per_minute");
    expect(quoted.slas.map((sla) => sla.is_feasible)).toEqual([false, true]);
  });

  it("adds up models that share their limits, and takes the longest of those that do not", () => {
    const limits = { requestsPerMinute: 100 };
    const alone = quote(input([totals("openai:gpt-6-sol")], limits)).time.seconds;
    const shared = quote(input([totals("openai:gpt-6-sol"), totals("openai:gpt-6-luna")], limits)).time
      .seconds;
    const apart = quote(input([totals("openai:gpt-6-sol"), totals("groq:openai/gpt-oss-120b")], limits)).time
      .seconds;
    expect(shared).toBeCloseTo(alone + 600, 1);
    expect(apart).toBe(alone);
  });

  it("is that of the narrower limit where a provider and a family both have one", () => {
    const limited = (provider: number, sol: number): QuoteInput => ({
      ...input([totals("openai:gpt-6-sol"), totals("openai:gpt-6-luna")]),
      limits: (model) => [
        { group: "openai", limits: { requestsPerMinute: provider } },
        { group: model, limits: model.endsWith("sol") ? { requestsPerMinute: sol } : {} },
      ],
    });
    const narrowProvider = quote(limited(100, 1_000)).models.map(({ time }) => time.seconds);
    expect(narrowProvider[0]).toBe(narrowProvider[1]);
    const [sol, luna] = quote(limited(1_000, 10)).models.map(({ time }) => time.seconds);
    expect(sol).toBeGreaterThan(6_000);
    expect(luna).toBeLessThan(200);
    expect(quote(limited(1_000, 10)).time.seconds).toBe(sol);
  });

  it("states its assumptions and takes others", () => {
    const slow = {
      ...input([totals("vllm:x")], { concurrency: 1 }),
      assumptions: { output_tokens_per_second: 5.12 },
    };
    const quoted = quote(slow);
    expect(quoted.assumptions).toEqual({ first_token_ms: 1_000, output_tokens_per_second: 5.12 });
    expect(quoted.time).toEqual({ seconds: 101_000, bound_by: "concurrency" });
  });
});
