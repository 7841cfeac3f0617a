/** What work would cost with an sla: the formulas of what_if.ts, with numbers. */
import { expect, it } from "vitest";
import { PriceBook } from "../../src/price/price_book.ts";
import { type CountedLines, countLines } from "../../src/spend/count_lines.ts";
import { type AuditReport, auditReport } from "../../src/spend/report.ts";
import { StreamFile } from "../../src/spend/stream_file.ts";
import { waitMsOf } from "../../src/spend/what_if.ts";

const RATES = {
  inputUsdPerMillion: 2,
  cachedUsdPerMillion: 0.2,
  cacheWriteUsdPerMillion: 2.5,
  outputUsdPerMillion: 10,
};
const NAMES = [
  "openai:gpt-5",
  "openai:gpt-4o",
  "anthropic:claude-x",
  "gemini:gemini-x",
  "mistral:m",
  "azure:gpt-5",
];
const PRICES = new PriceBook(Object.fromEntries(NAMES.map((name) => [name, RATES])));

async function reportOf(
  lines: readonly object[],
  slas: readonly number[],
  prices = PRICES,
): Promise<AuditReport> {
  const terms = { prices, waitsMs: slas.map(waitMsOf), nowMs: Date.UTC(2026, 9, 15) };
  return auditReport(await counted(lines, terms), slas);
}

function counted(lines: readonly object[], terms: Parameters<typeof countLines>[1]): Promise<CountedLines> {
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  const stream = (async function* () {
    yield await Promise.resolve(Buffer.from(text));
  })();
  return countLines(new StreamFile(stream), terms);
}

/** A million fresh input tokens, as many cached ones, and 100,000 of output: 2 + 0.2 + 1 = 3.2 USD at list price. */
function row(provider: string, model: string, more: object = {}): object {
  return {
    prompt_tokens: 2_000_000,
    completion_tokens: 100_000,
    cache_read_input_tokens: 1_000_000,
    model,
    custom_llm_provider: provider,
    startTime: "2026-10-01T00:00:00Z",
    ...more,
  };
}

it("sends work with an sla in flex: 5 % refused, 1 % late and paid twice", async () => {
  const { list_usd, slas } = await reportOf([row("openai", "gpt-5")], [15]);
  expect(list_usd).toBe(3.2);
  const expected = 0.95 * (1.6 + 0.01 * 3.2) + 0.05 * 3.2;
  expect(slas[0]).toMatchObject({ tiers: [{ tier: "flex", requests: 1 }] });
  expect(slas[0]?.expected_usd).toBeCloseTo(expected, 9);
  expect(slas[0]?.saved_usd).toBeCloseTo(3.2 - expected, 9);
});

it("counts 10 % as late where only the 90th percentile of flex fits", async () => {
  const found = await reportOf([row("openai", "gpt-5")], [2]);
  expect(found.slas[0]?.expected_usd).toBeCloseTo(0.95 * (1.6 + 0.1 * 3.2) + 0.05 * 3.2, 9);
});

it("leaves work where it was while no cheaper tier fits into the sla", async () => {
  const { slas } = await reportOf([row("openai", "gpt-5"), row("anthropic", "claude-x")], [1]);
  expect(slas[0]).toMatchObject({ expected_usd: 6.4, saved_usd: 0, tiers: [{ tier: "kept", requests: 2 }] });
});

it("takes a batch from where its p99 and a rescue in realtime fit: 21 min and 65 s at Anthropic", async () => {
  const { slas } = await reportOf([row("anthropic", "claude-x")], [22, 23]);
  expect(slas.map(({ tiers }) => tiers[0]?.tier)).toEqual(["kept", "batch"]);
  expect(slas[1]?.expected_usd).toBeCloseTo(1.6 + 0.01 * 3.2, 9);
});

it("counts OpenAI's batches without an end as paid twice, and knows that earlier models have no flex", async () => {
  const { slas } = await reportOf([row("openai", "gpt-4o")], [60, 1_440]);
  expect(slas.map(({ tiers }) => tiers[0]?.tier)).toEqual(["kept", "batch"]);
  expect(slas[1]?.expected_usd).toBeCloseTo(1.6 + (3 / 22) * 3.2, 9);
});

it("keeps the full price of cached input in Gemini's batches, so flex is cheaper there only where it is", async () => {
  const { slas } = await reportOf(
    [row("gemini", "gemini-x", { completion_tokens: 0, prompt_tokens: 1_000_000 })],
    [60],
  );
  // all input is cached: a batch costs 0.2 + 0.002, flex half of it
  expect(slas[0]).toMatchObject({ tiers: [{ tier: "flex" }] });
  expect(slas[0]?.expected_usd).toBeCloseTo(0.95 * (0.1 + 0.01 * 0.2) + 0.05 * 0.2, 9);
});

it("knows no cheaper tier of providers that have none", async () => {
  const { slas } = await reportOf([row("azure", "gpt-5")], [1_440]);
  expect(slas[0]).toMatchObject({ expected_usd: 3.2, saved_usd: 0, tiers: [{ tier: "kept" }] });
});

it("claims no saving for what the log shows to be cheaper already, by its tier or by its spend", async () => {
  const rows = [row("openai", "gpt-5", { service_tier: "flex" }), row("openai", "gpt-5", { spend: 1.5 })];
  const { slas, list_usd, tier_usd, paid_usd, stated_usd } = await reportOf(rows, [15, 1_440]);
  expect({ list_usd, tier_usd, paid_usd, stated_usd }).toEqual({
    list_usd: 6.4,
    tier_usd: 4.8,
    paid_usd: 3.1,
    stated_usd: 1.5,
  });
  for (const sla of slas) expect(sla).toMatchObject({ expected_usd: 3.1, saved_usd: 0 });
});

it("claims nothing for a tier of unknown price, and what priority costs beyond realtime for one of a known price", async () => {
  const unknown = await reportOf([row("openai", "gpt-5", { service_tier: "ultra" })], [15]);
  expect(unknown).toMatchObject({ tier_usd: 3.2, slas: [{ expected_usd: 3.2, saved_usd: 0 }] });
  expect(unknown.models[0]?.tiers).toMatchObject([{ tier: "ultra", is_known: false }]);
  const priority = await reportOf([row("openai", "gpt-4o", { service_tier: "priority" })], [15]);
  expect(priority).toMatchObject({
    tier_usd: 6.4,
    slas: [{ expected_usd: 3.2, tiers: [{ tier: "realtime" }] }],
  });
});

it("prices writes to Anthropic's cache for an hour at twice the input", async () => {
  const message = {
    type: "message",
    model: "claude-x",
    usage: {
      input_tokens: 0,
      output_tokens: 0,
      cache_creation_input_tokens: 2_000_000,
      cache_creation: { ephemeral_1h_input_tokens: 1_000_000 },
    },
  };
  expect(await reportOf([message], [15])).toMatchObject({ list_usd: 2.5 + 4, undated: 1 });
});

it("waits for DeepSeek's cheaper hours as far as the sla allows, and only then", async () => {
  const at = (time: string): object =>
    row("deepseek", "deepseek-v4-flash", { startTime: `2026-10-14T${time}Z` });
  const prices = new PriceBook();
  const dear = await reportOf([at("02:00:00")], [15, 300], prices);
  expect(dear.slas.map(({ tiers }) => tiers[0]?.tier)).toEqual(["kept", "offpeak"]);
  const cheap = await reportOf([at("12:00:00")], [15, 300], prices);
  expect(cheap.slas.map(({ tiers }) => tiers[0]?.tier)).toEqual(["kept", "kept"]);
  expect(dear.slas[1]?.expected_usd).toBe(cheap.list_usd);
  expect(dear.list_usd).toBeGreaterThan(cheap.list_usd);
});

it("names models without a price, and leaves them out of all amounts", async () => {
  const found = await reportOf([row("openai", "gpt-5"), row("acme", "m1"), row("", "m2")], [15]);
  expect(found).toMatchObject({ requests: 3, unpriced_requests: 2, list_usd: 3.2 });
  expect(found.unpriced_models).toEqual(["?:m2", "acme:m1"]);
  expect(found.models[1]).toMatchObject({ list_usd: null, price: null, slas: [] });
});

it("has the price of the day of each request", async () => {
  const at = (startTime: string): object => row("openai", "o3", { startTime, cache_read_input_tokens: 0 });
  const before = await reportOf([at("2025-06-01T00:00:00Z")], [15], new PriceBook());
  const after = await reportOf([at("2025-06-20T00:00:00Z")], [15], new PriceBook());
  expect(before.list_usd).toBe(5 * after.list_usd);
});
