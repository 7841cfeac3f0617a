/** Providers that a configuration names and does not configure. */
import { describe, expect, it } from "vitest";
import { checkOptions, resolveConfig } from "../../src/engine/config/config.ts";
import { overridesOf } from "../../src/price/price_sheet.ts";

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };
const MEANT = 'provider "opnai" is not configured; did you mean "openai"?';

describe("a misspelt provider", () => {
  it.each([
    ["limits", { limits: { opnai: { requestsPerMinute: 5 } } }, 'limits["opnai"]'],
    ["limits of a family", { limits: { "opnai:gpt-4o": { concurrency: 5 } } }, 'limits["opnai:gpt-4o"]'],
    ["families", { families: { opnai: { "gpt-4o*": "big" } } }, 'families["opnai"]'],
    ["prices", { prices: { "opnai:gpt-4o-mini": PRICE } }, 'prices["opnai:gpt-4o-mini"]'],
    ["prices of all its models", { prices: { "opnai*": PRICE } }, 'prices["opnai*"]'],
    ["lanes that are denied", { lanes: { deny: ["flex", "opnai:flex"] } }, 'lanes.deny["opnai:flex"]'],
    ["lanes that are allowed", { lanes: { allow: ["realtime", "opnai:flex"] } }, 'lanes.allow["opnai:flex"]'],
    ["the rate card", { rateCard: { models: { "opnai:*": {} } } }, 'rateCard.models["opnai:*"]'],
  ])("is refused in %s with the one that was meant", (_, options, place) => {
    expect(() => resolveConfig(options, {})).toThrow(`${place}: ${MEANT}`);
  });

  it("is refused beside a provider that only the environment or the configuration knows", () => {
    const limits = { boxx: { concurrency: 1 } };
    const env = { PERIGEE_PROVIDER_BOX_BASE_URL: "http://localhost:8000/v1" };
    expect(() => resolveConfig({ limits }, env)).toThrow('did you mean "box"?');
    const providers = { box: { baseUrl: "http://localhost:8000/v1" } };
    expect(() => resolveConfig({ limits, providers }, {})).toThrow('did you mean "box"?');
  });

  it("is noted in a price sheet, which may cover providers that are not configured", () => {
    const models = {
      "opnai:gpt-4o-mini": { input_mtok: 1, output_mtok: 1 },
      "frontier:one": { input_mtok: 1, output_mtok: 1 },
    };
    const { notes, prices } = resolveConfig({ prices: overridesOf({ version: "7", models }) }, {});
    expect(notes).toEqual([
      `the price of "opnai:gpt-4o-mini" in sheet 7 prices no configured model: ${MEANT}`,
    ]);
    expect(Object.keys(prices)).toHaveLength(2);
  });
});

describe("a provider that is not configured and near no other", () => {
  it("is noted in limits and families with what makes it known, and not in prices", () => {
    const options = {
      limits: { warehouse: { concurrency: 3 }, openai: { concurrency: 3 } },
      lanes: { deny: ["warehouse:flex", "openai:flex", "flex"] },
      prices: { "warehouse:*": PRICE, "*": PRICE, "open*": PRICE },
    };
    expect(resolveConfig(options, {}).notes).toEqual([
      'limits["warehouse"] has no effect: provider "warehouse" is not configured; set PERIGEE_PROVIDER_WAREHOUSE_BASE_URL, or providers.warehouse.baseUrl in the configuration',
      'lanes.deny["warehouse:flex"] has no effect: provider "warehouse" is not configured; set PERIGEE_PROVIDER_WAREHOUSE_BASE_URL, or providers.warehouse.baseUrl in the configuration',
    ]);
  });
});

describe("a misspelt member", () => {
  it("is named with the one that was meant, and not the member that it leaves missing", async () => {
    const { inputUsdPerMillion, ...rest } = PRICE;
    const prices = { "openai:*": { inputUsdPerMilion: inputUsdPerMillion, ...rest } };
    await expect(checkOptions({ prices }, "perigee.json")).rejects.toThrow(
      'perigee.json at prices.openai:*: "inputUsdPerMilion" is not a known name; did you mean "inputUsdPerMillion"?',
    );
  });
});
