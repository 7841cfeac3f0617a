import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { basePrice, PRICE_LIST_VERSION } from "../../src/price/base.ts";
import type { PriceOverrides } from "../../src/price/overrides.ts";
import { PriceBook } from "../../src/price/price_book.ts";
import type { BasePrice } from "../../src/price/rates.ts";
import { parseModelId } from "../../src/work/request.ts";

const NOON = Date.parse("2026-11-20T12:00:00Z"); // a Friday
const at = (time: string): number => Date.parse(time);

function priceOf(model: string, wallMs = NOON, overrides?: PriceOverrides): BasePrice | undefined {
  const id = parseModelId(model);
  if (id === undefined) throw new Error(model);
  return basePrice(id, wallMs, overrides);
}

function rates(price: BasePrice | undefined): number[] | undefined {
  return price && [price.inputUsdPerMillion, price.cachedUsdPerMillion, price.outputUsdPerMillion];
}

describe("the price list", () => {
  it("is the version that prices are said to come from", () => {
    const manifest = JSON.parse(readFileSync("node_modules/@pydantic/genai-prices/package.json", "utf8")) as {
      version: string;
    };
    expect(manifest.version).toBe(PRICE_LIST_VERSION);
    expect(priceOf("openai:gpt-6-sol")).toMatchObject({ source: "genai-prices 0.1.8", asOf: "2026-09-23" });
  });

  it("prices models of all providers under perigee's names for them", () => {
    expect(rates(priceOf("openai:gpt-6-luna"))).toEqual([0.1, 0.01, 0.5]);
    expect(rates(priceOf("openai:gpt-4o-mini"))).toEqual([0.15, 0.075, 0.6]);
    expect(rates(priceOf("anthropic:claude-opus-5-5"))).toEqual([4, 0.2, 20]);
    expect(rates(priceOf("gemini:gemini-2.5-flash"))).toEqual([0.3, 0.03, 2.5]);
    expect(rates(priceOf("google:gemini-2.5-flash"))).toEqual([0.3, 0.03, 2.5]);
    expect(rates(priceOf("groq:openai/gpt-oss-120b"))).toEqual([0.15, 0.075, 0.6]);
    expect(rates(priceOf("mistral:mistral-small-2603"))).toEqual([0.15, 0.015, 0.6]);
    expect(rates(priceOf("openrouter:openai/gpt-6-sol"))).toEqual([2, 0.2, 10]);
  });

  it("knows the write price of the cache, and takes the input price without one", () => {
    expect(priceOf("anthropic:claude-haiku-4-5")?.cacheWriteUsdPerMillion).toBe(1.25);
    expect(priceOf("openai:gpt-4o-mini")?.cacheWriteUsdPerMillion).toBe(0.15);
  });

  it("tells when a price was found by prefix only", () => {
    expect(priceOf("anthropic:claude-sonnet-5-5")).toMatchObject({
      model: "anthropic:claude-sonnet-5-5",
      matchedModel: "claude-sonnet-5",
      isExact: false,
      inputUsdPerMillion: 2,
    });
    expect(priceOf("gemini:gemini-3.8-flash-experimental")?.isExact).toBe(false);
  });

  it("takes a dated snapshot, another case and a listed alias as the very model", () => {
    for (const name of ["claude-haiku-4-5", "claude-haiku-4-5-20251001", "Claude-Haiku-4-5"])
      expect(priceOf(`anthropic:${name}`)).toMatchObject({ matchedModel: "claude-haiku-4-5", isExact: true });
    expect(priceOf("openai:gpt-5-4-2026-03-05")).toMatchObject({ matchedModel: "gpt-5.4", isExact: true });
  });

  it("has no price for unknown models, and they are not an error", () => {
    for (const model of [
      "anthropic:claude-haiku-5-5",
      "openai:gpt-6.1-sol",
      "openai:constructor",
      "nosuch:gpt-4o",
    ])
      expect(priceOf(model)).toBeUndefined();
  });

  it("has no price for models that are not billed by text tokens", () => {
    expect(priceOf("openai:whisper-1")).toBeUndefined();
    expect(priceOf("gemini:gemma-3")).toBeUndefined();
  });

  it("does not take a provider for another whose name it contains", () => {
    expect(priceOf("my-openai-box:gpt-4o-mini")).toBeUndefined();
    expect(priceOf("anthropic-proxy:claude-haiku-4-5")).toBeUndefined();
  });

  it("prices OpenRouter's free variants at zero", () => {
    expect(priceOf("openrouter:openai/gpt-oss-20b:free")).toMatchObject({
      inputUsdPerMillion: 0,
      isExact: true,
    });
  });

  it("returns the tiers of a price as cliffs by total input", () => {
    expect(priceOf("openai:gpt-6-sol")?.tiers).toEqual([
      {
        start: 272_000,
        inputUsdPerMillion: 4,
        cachedUsdPerMillion: 0.4,
        cacheWriteUsdPerMillion: 5,
        outputUsdPerMillion: 15,
      },
    ]);
    expect(priceOf("openai:gpt-4o-mini")?.tiers).toEqual([]);
  });

  it("prices a user's own servers at zero, known", () => {
    for (const provider of ["echo", "vllm", "llamacpp", "ollama", "sglang"])
      expect(priceOf(`${provider}:anything`)).toMatchObject({
        source: "local",
        asOf: "2026-11-20",
        isExact: true,
        inputUsdPerMillion: 0,
        outputUsdPerMillion: 0,
      });
  });
});

describe("prices that change with time", () => {
  it("doubles gemini-3.8-flash on 2027-01-01, and says so before", () => {
    const before = priceOf("gemini:gemini-3.8-flash", at("2026-12-31T23:59:59.999Z"));
    expect(rates(before)).toEqual([0.75, 0.075, 3.75]);
    expect(before?.validUntilWallMs).toBe(at("2027-01-01T00:00:00Z"));
    const after = priceOf("gemini:gemini-3.8-flash", at("2027-01-01T00:00:00Z"));
    expect(rates(after)).toEqual([1.5, 0.15, 7.5]);
    expect(after?.validFromWallMs).toBe(at("2027-01-01T00:00:00Z"));
    expect(after?.validUntilWallMs).toBe(Number.POSITIVE_INFINITY);
  });

  it("follows DeepSeek's peak hours to the second", () => {
    const off = [0.22, 0.007, 0.66];
    const peak = [0.44, 0.014, 1.32];
    const friday = (time: string): number[] | undefined =>
      rates(priceOf("deepseek:deepseek-v4-flash", at(`2026-11-20T${time}Z`)));
    expect(friday("00:59:59.999")).toEqual(off);
    expect(friday("01:00:00")).toEqual(peak);
    expect(friday("03:59:59.999")).toEqual(peak);
    expect(friday("04:00:00")).toEqual(off);
    expect(friday("06:00:00")).toEqual(peak);
    expect(friday("10:00:00")).toEqual(off);
  });

  it("says until when DeepSeek's price holds", () => {
    const until = (time: string): string =>
      new Date(priceOf("deepseek:deepseek-v4-pro", at(time))?.validUntilWallMs ?? Number.NaN).toISOString();
    expect(until("2026-11-19T18:00:00Z")).toBe("2026-11-20T01:00:00.000Z");
    expect(until("2026-11-20T01:00:00Z")).toBe("2026-11-20T04:00:00.000Z");
    expect(until("2026-11-20T09:59:59Z")).toBe("2026-11-20T10:00:00.000Z");
  });

  it("knows no DeepSeek peak at weekends: off-peak from Friday's last hour to Monday's first", () => {
    for (const time of [
      "2026-11-21T02:00:00Z",
      "2026-11-21T07:00:00Z",
      "2026-11-22T02:00:00Z",
      "2026-11-22T09:30:00Z",
    ])
      expect(rates(priceOf("deepseek:deepseek-v4-flash", at(time)))).toEqual([0.22, 0.007, 0.66]);
    const friday = priceOf("deepseek:deepseek-v4-flash", at("2026-11-20T10:00:00Z"));
    expect(friday?.validFromWallMs).toBe(at("2026-11-20T10:00:00Z"));
    expect(friday?.validUntilWallMs).toBe(at("2026-11-23T01:00:00Z"));
    const sunday = priceOf("deepseek:deepseek-v4-flash", at("2026-11-22T20:00:00Z"));
    expect(sunday?.validFromWallMs).toBe(at("2026-11-20T10:00:00Z"));
    expect(rates(priceOf("deepseek:deepseek-v4-flash", at("2026-11-23T01:00:00Z")))).toEqual([
      0.44, 0.014, 1.32,
    ]);
  });

  it("knows no DeepSeek peak on public holidays in China, and the next peak after a long one", () => {
    const off = [0.22, 0.007, 0.66];
    const peak = [0.44, 0.014, 1.32];
    const flash = (time: string, book = new PriceBook()) =>
      book.priceOf("deepseek:deepseek-v4-flash", at(time)).price;
    expect(rates(flash("2026-09-24T02:00:00Z"))).toEqual(peak);
    for (const day of ["2026-09-25", "2026-10-01", "2026-10-07", "2027-01-01", "2027-02-08"])
      expect(rates(flash(`${day}T02:00:00Z`))).toEqual(off);
    expect(rates(flash("2026-10-08T02:00:00Z"))).toEqual(peak);
    const national = flash("2026-10-02T12:00:00Z");
    expect(national?.validFromWallMs).toBe(at("2026-09-30T10:00:00Z"));
    expect(national?.validUntilWallMs).toBe(at("2026-10-08T01:00:00Z"));
    const notice = new PriceBook({}, ["2027-02-05..2027-02-12", "2027-02-15"]);
    expect(rates(flash("2027-02-12T02:00:00Z"))).toEqual(peak);
    expect(rates(flash("2027-02-12T02:00:00Z", notice))).toEqual(off);
    expect(rates(flash("2027-01-01T02:00:00Z", notice))).toEqual(peak); // not among the days of 2027 that it names
    expect(rates(flash("2026-10-01T02:00:00Z", notice))).toEqual(off);
    const endless = new PriceBook({}, ["2027-03-01..2027-03-31"]);
    expect(flash("2027-03-01T02:00:00Z", endless)?.validUntilWallMs).toBe(at("2027-03-15T10:00:00Z"));
  });

  it("takes a configured price times its peak factor in DeepSeek's peak hours, and only there", () => {
    const flash = {
      inputUsdPerMillion: 0.15,
      outputUsdPerMillion: 0.6,
      cachedUsdPerMillion: 0.003,
      peakFactor: 2,
    };
    const book = new PriceBook({ "deepseek:deepseek-flash": flash, "other:*": flash });
    const found = (model: string, time: string) => book.priceOf(model, at(time)).price;
    const peak = found("deepseek:deepseek-flash", "2026-11-24T02:00:00Z");
    expect(rates(peak)).toEqual([0.3, 0.006, 1.2]);
    expect(peak).toMatchObject({
      validFromWallMs: at("2026-11-24T01:00:00Z"),
      validUntilWallMs: at("2026-11-24T04:00:00Z"),
    });
    const off = found("deepseek:deepseek-flash", "2026-11-20T10:00:00Z"); // a Friday
    expect(rates(off)).toEqual([0.15, 0.003, 0.6]);
    expect(off).toMatchObject({
      validFromWallMs: at("2026-11-20T10:00:00Z"),
      validUntilWallMs: at("2026-11-23T01:00:00Z"),
      ceiling: [{ start: -1, inputUsdPerMillion: 0.3, outputUsdPerMillion: 1.2 }],
    });
    expect(rates(found("deepseek:deepseek-flash", "2026-10-01T02:00:00Z"))).toEqual([0.15, 0.003, 0.6]);
    expect(found("other:deepseek-flash", "2026-11-24T02:00:00Z")).toMatchObject({
      inputUsdPerMillion: 0.15,
      validUntilWallMs: Number.POSITIVE_INFINITY,
    });
    expect(() => new PriceBook({ "deepseek:x": { ...flash, peakFactor: 0.5 } })).toThrow(
      /peakFactor must be/,
    );
  });

  it.each(["2027-02-30", "2027-2-5", "2027-02-05..2027-02-01", "2027-02-05..2028-02-05", "2027-02-05..", ""])(
    "refuses a public holiday that is not a day: %j",
    (entry) => expect(() => new PriceBook({}, [entry])).toThrow(/lanes\.offPeakDays: must be a day such as/),
  );

  it("does not believe the stale price of deepseek-chat", () => {
    for (const name of ["deepseek-chat", "deepseek-reasoner"])
      expect(priceOf(`deepseek:${name}`)).toMatchObject({
        matchedModel: "deepseek-v4-flash",
        isExact: false,
        inputUsdPerMillion: 0.22,
        outputUsdPerMillion: 0.66,
      });
  });

  it("looks ahead for upper bounds: a call may end in peak hours", () => {
    const price = priceOf("deepseek:deepseek-v4-flash", at("2026-11-20T00:59:00Z"));
    expect(price?.inputUsdPerMillion).toBe(0.22);
    expect(price?.ceiling).toEqual([{ start: -1, inputUsdPerMillion: 0.44, outputUsdPerMillion: 1.32 }]);
    const rising = priceOf("gemini:gemini-3.8-flash", at("2026-12-31T12:00:00Z"));
    expect(rising?.ceiling[0]?.outputUsdPerMillion).toBe(7.5);
  });
});

describe("overrides", () => {
  const overrides: PriceOverrides = {
    "openai:*": { inputUsdPerMillion: 9, outputUsdPerMillion: 90 },
    "openai:gpt-6*": {
      inputUsdPerMillion: 3,
      outputUsdPerMillion: 30,
      cachedUsdPerMillion: 0.3,
      asOf: "2026-10-01",
    },
    "openai:gpt-6.1-sol": { inputUsdPerMillion: 2, outputUsdPerMillion: 10, cacheWriteUsdPerMillion: 2.5 },
  };

  it("go before the list, the exact key first, then the longest prefix", () => {
    expect(priceOf("openai:gpt-6.1-sol", NOON, overrides)).toMatchObject({
      matchedModel: "openai:gpt-6.1-sol",
      isExact: true,
      source: "config",
      asOf: "2026-11-20",
      inputUsdPerMillion: 2,
      cachedUsdPerMillion: 2,
      cacheWriteUsdPerMillion: 2.5,
      outputUsdPerMillion: 10,
      tiers: [],
      validUntilWallMs: Number.POSITIVE_INFINITY,
    });
    expect(priceOf("openai:gpt-6-sol", NOON, overrides)).toMatchObject({
      matchedModel: "openai:gpt-6*",
      cachedUsdPerMillion: 0.3,
      asOf: "2026-10-01",
    });
    expect(priceOf("openai:gpt-4o-mini", NOON, overrides)?.inputUsdPerMillion).toBe(9);
    expect(priceOf("anthropic:claude-haiku-4-5", NOON, overrides)?.source).toBe("genai-prices 0.1.8");
  });

  it("price a user's own servers too", () => {
    const own = { "vllm:*": { inputUsdPerMillion: 0.01, outputUsdPerMillion: 0.02 } };
    expect(priceOf("vllm:llama", NOON, own)).toMatchObject({ source: "config", outputUsdPerMillion: 0.02 });
  });

  it("are not found through names of the prototype", () => {
    expect(basePrice({ provider: "__proto__", name: "x" }, NOON, {})).toBeUndefined();
    expect(basePrice({ provider: "constructor", name: "name" }, NOON, {})).toBeUndefined();
  });

  it("are refused when they are not prices", () => {
    for (const usd of [Number.NaN, -1, Number.POSITIVE_INFINITY, "3" as unknown as number])
      expect(
        () => new PriceBook({ "openai:gpt-6": { inputUsdPerMillion: usd, outputUsdPerMillion: 1 } }),
      ).toThrow(/prices: openai:gpt-6.inputUsdPerMillion must be USD from 0/);
    const fine = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };
    expect(() => new PriceBook({ "gpt-6": fine })).toThrow(/key must be "<provider>:<model>"/);
    expect(() => new PriceBook({ "openai:*-mini": fine })).toThrow(/key must be/);
    expect(() => new PriceBook({ "openai:x": { ...fine, asOf: "today" } })).toThrow(/asOf must be a day/);
    expect(() => new PriceBook({ "openai:x": { ...fine, asOf: "2026-13-45" } })).toThrow(
      /asOf must be a day/,
    );
  });
});

describe("the price book", () => {
  const flash = { provider: "deepseek", name: "deepseek-v4-flash" };

  it("keeps a price for as long as it holds, and no longer", () => {
    const book = new PriceBook();
    const first = book.price(flash, at("2026-11-20T00:59:59Z"));
    expect(book.price(flash, at("2026-11-20T00:59:59.999Z"))).toBe(first);
    expect(book.price(flash, at("2026-11-20T01:00:00Z"))?.inputUsdPerMillion).toBe(0.44);
  });

  it("is right after the wall clock has jumped back", () => {
    const book = new PriceBook();
    expect(book.price(flash, at("2026-11-20T04:00:00Z"))?.inputUsdPerMillion).toBe(0.22);
    expect(book.price(flash, at("2026-11-20T03:59:00Z"))?.inputUsdPerMillion).toBe(0.44);
  });

  it("agrees with the list at every quarter of an hour of two weeks", () => {
    const book = new PriceBook();
    const start = at("2026-12-25T00:00:00Z");
    for (const model of [flash, { provider: "gemini", name: "gemini-3.8-flash" }])
      for (let quarter = 0; quarter < 14 * 96; quarter++) {
        const wallMs = start + quarter * 900_000;
        expect(book.price(model, wallMs)?.outputUsdPerMillion).toBe(
          basePrice(model, wallMs)?.outputUsdPerMillion,
        );
      }
  });

  it("keeps the absence of a price too", () => {
    const book = new PriceBook();
    expect(book.price({ provider: "openai", name: "gpt-6.1-sol" }, NOON)).toBeUndefined();
    expect(book.price({ provider: "openai", name: "gpt-6.1-sol" }, NOON + 1)).toBeUndefined();
  });

  it("does not change when the caller's overrides do", () => {
    const overrides = { "vllm:x": { inputUsdPerMillion: 1, outputUsdPerMillion: 1 } };
    const book = new PriceBook(overrides);
    overrides["vllm:x"].inputUsdPerMillion = 5;
    expect(book.price({ provider: "vllm", name: "x" }, NOON)?.inputUsdPerMillion).toBe(1);
  });

  it("forgets models beyond 10,000 instead of growing", () => {
    const book = new PriceBook();
    for (let index = 0; index < 10_005; index++) book.price({ provider: "vllm", name: `m${index}` }, NOON);
    expect(book.price({ provider: "vllm", name: "m1" }, NOON)?.model).toBe("vllm:m1");
  });
});
