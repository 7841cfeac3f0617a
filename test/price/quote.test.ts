import { describe, expect, it } from "vitest";
import { quoteTable } from "../../src/cli/run/quote.ts";
import { priceFactor } from "../../src/price/factor.ts";
import { PriceBook } from "../../src/price/price_book.ts";
import { type ModelTotals, type QuoteInput, quote } from "../../src/price/quote.ts";
import type { TimeNeeded } from "../../src/price/quote_requests.ts";

const NOON = Date.parse("2026-11-20T12:00:00Z");
const book = new PriceBook();

function input(totals: readonly ModelTotals[], times: Readonly<Record<string, TimeNeeded>> = {}): QuoteInput {
  return {
    totals,
    wallMs: NOON,
    slasMinutes: [60, 1_440],
    price: (model) => book.price(model, NOON),
    basis: "ceiling",
    rejectedLines: 0,
    volumeTokens: sumOf(totals),
    times: new Map(Object.entries(times)),
    assumptions: { first_token_ms: 1_000, output_tokens_per_second: 50 },
  };
}

const sumOf = (rows: readonly ModelTotals[]): number =>
  rows.reduce((sum, row) => sum + row.inputTokens + row.expectedOutputTokens, 0);

function totals(model: string, given: Partial<ModelTotals> = {}): ModelTotals {
  const { inputTokens = 1_000_000, expectedOutputTokens = 512_000 } = given;
  return {
    model,
    items: 1_000,
    inputTokens,
    inputTokensLow: inputTokens,
    inputTokensHigh: inputTokens,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    isEstimated: false,
    expectedOutputTokens,
    outputTokensLow: expectedOutputTokens / 2,
    outputTokensHigh: expectedOutputTokens * 2,
    basis: "default",
    learntAnswers: 0,
    ...given,
  };
}

describe("a quote", () => {
  it("returns tokens, list price, price at each sla, and the source of the price", () => {
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
      expected_output_basis: ["default"],
      learnt_answers: 0,
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
    expect(quoted.slas).toMatchObject([
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
    expect(quoted.unpriced_items).toBe(1_000);
    expect(quoteTable(quoted)).toMatch(
      /all models\n {2}items +2,000\n {2}billed +about \$[\d.]+, .* to \$[\d.]+, plus 1,000 items of unknown price\n/,
    );
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
        totals("anthropic:claude-sonnet-5-5", {
          isEstimated: true,
          basis: "learnt of the system prompt",
          learntAnswers: 7,
        }),
        totals("anthropic:claude-sonnet-5-5", { basis: "learnt of the model", learntAnswers: 30 }),
      ]),
    );
    expect(quoted.input_tokens_estimated).toBe(true);
    expect(quoted.models).toHaveLength(1);
    expect(quoted.models[0]?.price?.is_exact).toBe(false);
    expect(quoted.models[0]?.expected_output_basis).toEqual([
      "learnt of the system prompt",
      "learnt of the model",
    ]);
    expect(quoted.models[0]?.learnt_answers).toBe(37);
    expect(quoted.models[0]?.input_tokens).toBe(2_000_000);
  });

  it("prices rows of long requests by their tier", () => {
    const long = totals("openai:gpt-6-sol", { items: 10, inputTokens: 3_000_000, expectedOutputTokens: 0 });
    const short = totals("openai:gpt-6-sol", { expectedOutputTokens: 0 });
    expect(quote(input([long])).list_usd).toBe(12);
    expect(quote(input([short, long])).list_usd).toBe(14);
  });

  it("is never NaN, and plain JSON, for any totals", () => {
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
      const never: TimeNeeded = { seconds: Number.POSITIVE_INFINITY, boundBy: "latency", isMeasured: true };
      const quoted = quote(input(rows, { "vllm:x": never }));
      expect(JSON.parse(JSON.stringify(quoted))).toEqual(quoted);
      expect(Number.isFinite(quoted.list_usd) && Number.isFinite(quoted.time.seconds)).toBe(true);
    }
    expect(quote(input([])).time).toEqual({ seconds: 0, bound_by: "nothing", basis: "learnt" });
  });

  it("prices what is read from and written to the cache at its rates", () => {
    const cached = totals("anthropic:claude-sonnet-5-5", {
      cachedTokens: 400_000,
      cacheWriteTokens: 100_000,
      expectedOutputTokens: 0,
    });
    const { price, billed_usd } = quote(input([cached])).models[0] ?? {};
    expect(price?.cached_usd_per_million).toBeLessThan(price?.input_usd_per_million ?? 0);
    const {
      input_usd_per_million = 0,
      cached_usd_per_million = 0,
      cache_write_usd_per_million = 0,
    } = price ?? {};
    const expected =
      0.5 * input_usd_per_million + 0.4 * cached_usd_per_million + 0.1 * cache_write_usd_per_million;
    expect(billed_usd).toBeCloseTo(expected, 9);
  });
});

describe("the band of a quote", () => {
  const learnt = { basis: "learnt of the model", inputTokens: 0 } as const;
  const at = (model: string, low: number, high: number): ModelTotals =>
    totals(model, { ...learnt, outputTokensLow: low, outputTokensHigh: high });

  it("is that of the expected output and input, at their prices", () => {
    const quoted = quote(input([at("openai:gpt-6-sol", 412_000, 712_000)]));
    expect(quoted).toMatchObject({ billed_usd: 5.12, billed_usd_low: 4.12, billed_usd_high: 7.12 });
    expect(quoted.models[0]).toMatchObject({
      ...{ billed_usd_low: 4.12, billed_usd_high: 7.12 },
      ...{ expected_output_tokens_low: 412_000, expected_output_tokens_high: 712_000 },
    });
    const counts = { inputTokens: 1_000_000, inputTokensLow: 800_000, inputTokensHigh: 1_200_000 };
    const estimated = totals("openai:gpt-6-sol", { ...counts, expectedOutputTokens: 0 });
    expect(quote(input([estimated]))).toMatchObject({ billed_usd_low: 1.6, billed_usd_high: 2.4 });
  });

  it("adds learnt figures as independent errors, and defaults as the same one", () => {
    const two = (basis: ModelTotals["basis"]): ReturnType<typeof quote> =>
      quote(
        input([
          { ...at("openai:gpt-6-sol", 212_000, 812_000), basis },
          { ...at("openai:gpt-6-sol", 112_000, 912_000), basis },
        ]),
      );
    expect(two("learnt of the model")).toMatchObject({ billed_usd_low: 5.24, billed_usd_high: 15.24 });
    expect(two("default")).toMatchObject({ billed_usd_low: 3.24, billed_usd_high: 17.24 });
  });
});

describe("the time of a quote", () => {
  const [sol, luna] = ["openai:gpt-6-sol", "openai:gpt-6-luna"];
  const time = (seconds: number, isMeasured = true): TimeNeeded => ({
    seconds,
    boundBy: "requests_per_minute",
    isMeasured,
  });

  it("is that of its slowest model, and decides whether an sla is feasible", () => {
    const quoted = quote(
      input([totals(sol), totals(luna)], { [sol]: time(3_599.91), [luna]: time(3_600.04) }),
    );
    expect(quoted.models.map((model) => model.time.seconds)).toEqual([3_600, 3_600.1]);
    expect(quoted.time).toEqual({ seconds: 3_600.1, bound_by: "requests_per_minute", basis: "learnt" });
    expect(quoted.models.map(({ slas }) => slas.map((sla) => sla.is_feasible))).toEqual([
      [true, true],
      [false, true],
    ]);
    expect(quoted.slas.map((sla) => sla.is_feasible)).toEqual([false, true]);
  });

  it("says where the speed of a provider is assumed, and what is assumed", () => {
    const quoted = quote(input([totals(sol), totals(luna)], { [sol]: time(10), [luna]: time(5, false) }));
    expect(quoted.models.map((model) => model.time.basis)).toEqual(["learnt", "assumed"]);
    expect(quoted.time.basis).toBe("assumed");
    expect(quoted.assumptions).toEqual({ first_token_ms: 1_000, output_tokens_per_second: 50 });
  });

  it("is no sooner than what waits already", () => {
    const quoted = quote({ ...input([totals(sol)], { [sol]: time(10) }), behindSeconds: () => 20 });
    expect(quoted.time).toMatchObject({ seconds: 20, bound_by: "backlog" });
  });

  it("states at each sla what is billed where the work then goes, and for a run with an sla its own in all", () => {
    const half = { expectedShare: 0.52, lowShare: 0.5, highShare: 1 };
    const finish = { expected_seconds: 300, early_seconds: 100, late_seconds: 900 };
    const lanes = [{ lane: "openai:batch", items: 1_000 }];
    const planned = (_: string, sla: number) =>
      sla === 1_440 ? { ...half, lanes, isRealtime: false, finish } : undefined;
    const asked = { ...input([totals("openai:gpt-6-sol")]), planned };
    const { billed_usd, billed_usd_low, billed_usd_high, slas } = quote(asked);
    const [hour, day] = slas;
    expect(hour).toMatchObject({ billed_usd, billed_usd_low, billed_usd_high, lanes: [] });
    expect(day?.billed_usd).toBeCloseTo(0.52 * billed_usd, 9);
    expect(day?.billed_usd_low).toBeCloseTo(0.5 * billed_usd_low, 9);
    expect(day?.billed_usd_high).toBeCloseTo(billed_usd_high, 9);
    expect(day).toMatchObject({ lanes, finish });
    const own = quote({ ...asked, ownSlaMinutes: 1_440 });
    expect(own.billed_usd).toBe(day?.billed_usd);
    expect(own.models[0]?.billed_usd).toBe(own.models[0]?.slas[1]?.billed_usd);
  });
});
