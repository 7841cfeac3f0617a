import { readFileSync } from "node:fs";
import { describe, expect, expectTypeOf, it } from "vitest";
import type { Item, KnownModel, ModelName } from "../../src/index.ts";
import { PriceBook } from "../../src/price/price_book.ts";

/** The literals of the types, by provider. */
function named(): string[] {
  const text = readFileSync(new URL("../../src/work/model_name.ts", import.meta.url), "utf8");
  return [...text.matchAll(/^type (\w+)Models =([^;]*);/gm)].flatMap(([, provider = "", union = ""]) =>
    [...union.matchAll(/"([^"]+)"/g)].map(([, name]) => `${provider.toLowerCase()}:${name}`),
  );
}

describe("the names of models that editors complete", () => {
  it("are models of their providers with a known price", () => {
    expect(named().length).toBeGreaterThan(20);
    const book = new PriceBook({});
    const wallMs = Date.UTC(2026, 8, 23);
    expect(named().filter((model) => book.priceOf(model, wallMs).price?.isExact !== true)).toEqual([]);
  });

  it("are completed, and every other name is accepted", () => {
    expectTypeOf<"openai:gpt-4o-mini">().toExtend<KnownModel>();
    expectTypeOf<"anthropic:claude-haiku-4-5">().toExtend<KnownModel>();
    expectTypeOf<"openai:gpt-9">().not.toExtend<KnownModel>();
    expectTypeOf<string>().toExtend<ModelName>();
    expectTypeOf<Item["model"]>().toEqualTypeOf<ModelName>();
  });

  it("are in items with one question each", () => {
    const model = "openai:gpt-4o-mini";
    expectTypeOf<{
      model: string;
      input: string;
      temperature: number;
      maxOutputTokens: number;
    }>().toExtend<Item>();
    expectTypeOf({
      model,
      messages: [{ role: "user", content: "a" }],
      tools: [{ type: "function" }],
    }).toExtend<Item>();
    expectTypeOf<{ model: string; contents: { parts: { text: string }[] }[] }>().toExtend<Item>();
    expectTypeOf<{ model: string }>().not.toExtend<Item>();
    expectTypeOf<{ model: string; input: string; messages: { role: string }[] }>().not.toExtend<Item>();
    expectTypeOf<{ model: string; input: string; temperature: string }>().not.toExtend<Item>();
  });
});
