import { describe, expect, it } from "vitest";
import { checkOptions, resolveConfig } from "../../src/engine/config/config.ts";
import { basePrice } from "../../src/price/base.ts";
import { howToPrice, overridesOf, readPriceSheet } from "../../src/price/price_sheet.ts";

const SHEET = {
  version: "2026-11-20",
  models: { "deepseek:deepseek-flash": { input_mtok: 0.15, cache_read_mtok: 0.003, output_mtok: 0.6 } },
};
const MODEL = { provider: "deepseek", name: "deepseek-flash" };

describe("a price sheet", () => {
  it("prices its models before every other source, and is named with its version and day", () => {
    const price = basePrice(MODEL, Date.UTC(2026, 10, 22), overridesOf(readPriceSheet(SHEET, "sheet.json")));
    expect(price).toMatchObject({
      inputUsdPerMillion: 0.15,
      cachedUsdPerMillion: 0.003,
      cacheWriteUsdPerMillion: 0.15,
      outputUsdPerMillion: 0.6,
      source: "sheet 2026-11-20",
      asOf: "2026-11-20",
      matchedModel: "deepseek:deepseek-flash",
    });
  });

  it("may have any name as its version; its day is that of use then", () => {
    const named = overridesOf(readPriceSheet({ ...SHEET, version: "contract 7" }, "sheet.json"));
    expect(basePrice(MODEL, Date.UTC(2026, 10, 22), named)).toMatchObject({
      source: "sheet contract 7",
      asOf: "2026-11-22",
    });
  });

  it("says what peak hours cost at DeepSeek in times of its prices", () => {
    const price = { input_mtok: 0.15, output_mtok: 0.6, peak_factor: 2 };
    const sheet = { version: "2026-11-20", models: { "deepseek:deepseek-flash": price } };
    const overrides = overridesOf(readPriceSheet(sheet, "sheet.json"));
    expect(basePrice(MODEL, Date.UTC(2026, 10, 24, 2), overrides)?.inputUsdPerMillion).toBe(0.3);
    expect(basePrice(MODEL, Date.UTC(2026, 10, 24, 5), overrides)?.inputUsdPerMillion).toBe(0.15);
    const wrong = { ...sheet, models: { "deepseek:deepseek-flash": { ...price, peak_factor: 0 } } };
    expect(() => readPriceSheet(wrong, "sheet.json")).toThrow(
      /peak_factor must be a number from 1 to 10, got 0/,
    );
  });

  it("may be in the configuration as its prices", async () => {
    const options = await checkOptions({ prices: SHEET }, "perigee.json");
    expect(resolveConfig(options, {}).prices).toEqual(overridesOf(SHEET));
    expect(resolveConfig({ prices: SHEET }, {}).prices).toEqual(overridesOf(SHEET));
  });

  it.each([
    [[], "sheet.json must be an object, got []"],
    [
      { ...SHEET, currency: "EUR" },
      'sheet.json: "currency" is not a known name; expected one of version, models',
    ],
    [{ models: {} }, 'sheet.json: version must be a text such as "2026-11-20", got nothing'],
    [
      { version: "1", models: { gpt: {} } },
      'sheet.json: models["gpt"] must be "<provider>:<model>", "*" allowed at the end',
    ],
    [
      { version: "1", models: { "a:b": { input_mtok: 1 } } },
      'sheet.json: models["a:b"].output_mtok must be USD per million tokens, from 0, got nothing',
    ],
    [
      { version: "1", models: { "a:b": { input: 1, output_mtok: 1 } } },
      'sheet.json: models["a:b"]: "input" is not a known name; did you mean "input_mtok"?',
    ],
  ])("that is %j is refused with its place", (sheet, message) => {
    expect(() => readPriceSheet(sheet, "sheet.json")).toThrow(message);
  });

  it("is shown as a line for a model that has no price", () => {
    expect(howToPrice("a:b")).toBe(
      'add "a:b": {"input_mtok": ..., "output_mtok": ...} (USD per million tokens) to "models" of the price sheet',
    );
  });
});
