/**
 * Base prices of models, and the only import of `@pydantic/genai-prices` (prices, MIT, without dependencies).
 *
 * The sources of a price, in this order: the overrides of the configuration (source `config`), the list of servers that
 * people run themselves (free, source `local`), the price list (source `genai-prices <version>`). Nothing else is
 * known: a model without a price runs unpriced.
 *
 * What the price list gets wrong or leaves open, and what is done here:
 * - it finds models by prefix (`claude-sonnet-5-5` is priced as `claude-sonnet-5`): marked with `isExact: false`;
 * - it finds providers by substring (`my-openai-box` as `openai`): only the exact provider is taken;
 * - prices hold for hours (DeepSeek's peak) or from a date on: always asked with a time, and valid until the next edge;
 * - DeepSeek bills no peak at weekends and on public holidays in China (off_peak_days.ts); the list has no weekdays;
 * - `deepseek-chat` and `deepseek-reasoner` carry prices of 2025; both became names of `deepseek-v4-flash` before they
 *   were retired on 2026-07-24, so they are priced as that, inexactly;
 * - it can fetch newer prices from GitHub: never used.
 *
 * Limits: the list costs 31 ms and 19 MB once (52 ms as an ES module), so it is loaded with the first model that needs it.
 */
import { createRequire } from "node:module";
import type * as genaiPrices from "@pydantic/genai-prices";
import type { ModelId } from "../work/request.ts";
import { OffPeakDays } from "./off_peak_days.ts";
import { overriddenPrice, type PriceOverrides } from "./overrides.ts";
import {
  type BasePrice,
  ceilingOf,
  isFreeProvider,
  localPrice,
  type PriceRates,
  type PriceTier,
} from "./rates.ts";

/** The version of the price list that is installed; a test compares it with the package. */
export const PRICE_LIST_VERSION = "0.1.8";
/** The day on which that version was published. */
const PRICE_LIST_DATE = "2026-09-23";

type ModelInfo = genaiPrices.ModelInfo;
type ModelPrice = genaiPrices.ModelPrice;

/** Providers whose name here is not their id in the price list. */
const LIST_PROVIDERS: ReadonlyMap<string, string> = new Map([
  ["gemini", "google"],
  ["vertex", "google"],
  ["xai", "x-ai"],
  ["bedrock", "aws"],
  ["moonshot", "moonshotai"],
]);

/** Names whose entry in the price list is stale, and the model that they last meant. */
const STALE_NAMES: ReadonlyMap<string, string> = new Map([
  ["deepseek:deepseek-chat", "deepseek-v4-flash"],
  ["deepseek:deepseek-reasoner", "deepseek-v4-flash"],
]);

const DAY_MS = 86_400_000;
/** Edges are looked for this many days around; from the last peak hour before Spring Festival of 2026 to the first after are 10.6. */
const EDGE_DAYS = 14;
const USUAL_DAYS = new OffPeakDays();
/** How far ahead `ceiling` looks: a day in which the price may be kept, and a day for a call that began then. */
const CEILING_MS = 2 * DAY_MS;

/**
 * The price of a model at a moment (Unix milliseconds); undefined when it is not known. Names may differ in case.
 * Throws `invalid_config` for an override that is not a price.
 */
export function basePrice(
  model: ModelId,
  wallMs: number,
  overrides: PriceOverrides = {},
  offPeakDays: OffPeakDays = USUAL_DAYS,
): BasePrice | undefined {
  const id = `${model.provider}:${model.name}`;
  const own = overriddenPrice(overrides, id, wallMs, offPeakDays);
  if (own !== undefined) return own;
  if (isFreeProvider(model.provider)) return localPrice(id, model.name, wallMs);
  const stale = STALE_NAMES.get(id.toLowerCase());
  const name = stale ?? model.name;
  const found = listed(model.provider, name, wallMs, offPeakDays);
  if (found === undefined) return undefined;
  const rates = ratesOf(found.prices, isFreeVariant(model));
  if (rates === undefined) return undefined;
  const edges = edgesAround(found.info, wallMs);
  const pricesAt = (atMs: number): ModelPrice | undefined =>
    listed(model.provider, name, atMs, offPeakDays)?.prices;
  const laterRates = edges
    .filter((edgeMs) => edgeMs > wallMs && edgeMs <= wallMs + CEILING_MS)
    .map((edgeMs) => ratesOf(pricesAt(edgeMs) ?? {}, false) ?? rates);
  return {
    model: id,
    matchedModel: found.info.id,
    isExact: stale === undefined && isSameModel(found.info, name),
    ...rates,
    ceiling: ceilingOf([rates, ...laterRates]),
    source: `genai-prices ${PRICE_LIST_VERSION}`,
    asOf: PRICE_LIST_DATE,
    ...validity(edges, wallMs, found.prices, pricesAt),
  };
}

/** Names of a provider's models in the price list, in its order; empty for a provider that it does not have. */
export function listedModels(provider: string): readonly string[] {
  const providerId = LIST_PROVIDERS.get(provider) ?? provider;
  const found = priceList().findProvider({ providerId });
  return found?.id === providerId ? found.models.map(({ id }) => id) : [];
}

let loaded: typeof genaiPrices | undefined;
let isFound = false;

function priceList(): typeof genaiPrices {
  loaded ??= createRequire(import.meta.url)("@pydantic/genai-prices") as typeof genaiPrices; // the package's own types
  return loaded;
}

/** In a bundle, from which Node does not find the package: loads the bundle's copy, since prices are read synchronously later. */
export async function loadBundledPrices(): Promise<void> {
  if (isFound) return; // to look for it takes a tenth of a millisecond
  try {
    createRequire(import.meta.url).resolve("@pydantic/genai-prices");
    isFound = true;
  } catch {
    loaded ??= await import("@pydantic/genai-prices");
  }
}

/** The entry for a model and the prices that hold at `wallMs`. */
function listed(
  provider: string,
  name: string,
  wallMs: number,
  offPeakDays: OffPeakDays,
): { readonly info: ModelInfo; readonly prices: ModelPrice } | undefined {
  const providerId = LIST_PROVIDERS.get(provider) ?? provider;
  const isOffPeak = providerId === "deepseek" && offPeakDays.has(wallMs);
  const timestamp = new Date(isOffPeak ? noonOf(wallMs) : wallMs);
  const result = priceList().calcPrice({}, name, { providerId, timestamp });
  if (result === null || result.provider.id !== providerId) return undefined;
  return { info: result.model, prices: result.model_price };
}

/** Noon UTC of the same day, which is off-peak at DeepSeek. */
function noonOf(wallMs: number): number {
  return Math.floor(wallMs / DAY_MS) * DAY_MS + DAY_MS / 2;
}

/** OpenRouter's `:free` variants have an empty price in the list and cost nothing. */
function isFreeVariant(model: ModelId): boolean {
  return model.provider === "openrouter" && model.name.endsWith(":free");
}

/** Undefined for models that are not priced by text tokens. */
function ratesOf(
  prices: ModelPrice,
  isFree: boolean,
): (PriceRates & { readonly tiers: readonly PriceTier[] }) | undefined {
  if (prices["input_mtok"] === undefined && prices["output_mtok"] === undefined && !isFree) return undefined;
  const starts = new Set<number>();
  for (const key of ["input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok"]) {
    const value = prices[key];
    if (typeof value === "object") for (const tier of value.tiers) starts.add(tier.start);
  }
  const tiers = [...starts].sort((a, b) => a - b).map((start) => ({ start, ...ratesAbove(prices, start) }));
  return { ...ratesAbove(prices, -1), tiers };
}

/** The rates of a request with more than `start` input tokens. */
function ratesAbove(prices: ModelPrice, start: number): PriceRates {
  const at = (key: string): number | undefined => {
    const value = prices[key];
    if (typeof value !== "object") return value;
    return value.tiers.reduce((price, tier) => (tier.start <= start ? tier.price : price), value.base);
  };
  const input = at("input_mtok") ?? 0;
  return {
    inputUsdPerMillion: input,
    cachedUsdPerMillion: at("cache_read_mtok") ?? input,
    cacheWriteUsdPerMillion: at("cache_write_mtok") ?? input,
    outputUsdPerMillion: at("output_mtok") ?? 0,
  };
}

/** True when the list names this very model: its id, a dated snapshot of it, or a name that it lists in full. */
function isSameModel(info: ModelInfo, name: string): boolean {
  const asked = name.toLowerCase().trim();
  const id = info.id.toLowerCase();
  if (asked === id || namesInFull(info.match, asked)) return true;
  return asked.startsWith(id) && /^[-@](\d{8}|\d{4}-\d{2}-\d{2})$/.test(asked.slice(id.length));
}

function namesInFull(match: genaiPrices.MatchLogic, asked: string): boolean {
  if ("or" in match) return match.or.some((rule) => namesInFull(rule, asked));
  return "equals" in match && match.equals.toLowerCase() === asked;
}

/** Moments around `wallMs`, in order, at which the price may change. */
function edgesAround(info: ModelInfo, wallMs: number): number[] {
  if (!Array.isArray(info.prices)) return [];
  const edges = new Set<number>();
  const today = Math.floor(wallMs / DAY_MS);
  for (const { constraint } of info.prices) {
    if (constraint?.type === "start_date") edges.add(Date.parse(constraint.start_date));
    if (constraint?.type !== "time_of_date") continue;
    for (let day = today - EDGE_DAYS; day <= today + EDGE_DAYS; day++) {
      const date = new Date(day * DAY_MS).toISOString().slice(0, 10);
      edges.add(Date.parse(`${date}T${constraint.start_time}`));
      edges.add(Date.parse(`${date}T${constraint.end_time}`));
    }
  }
  return [...edges].sort((a, b) => a - b);
}

/** The span around `wallMs` in which the price is `prices`. A price by the clock holds at least as far as the edges reach. */
function validity(
  edges: readonly number[],
  wallMs: number,
  prices: ModelPrice,
  pricesAt: (atMs: number) => ModelPrice | undefined,
): { readonly validFromWallMs: number; readonly validUntilWallMs: number } {
  return {
    validFromWallMs:
      edges.findLast((edgeMs) => edgeMs <= wallMs && pricesAt(edgeMs - 1) !== prices) ??
      Number.NEGATIVE_INFINITY,
    validUntilWallMs:
      edges.find((edgeMs) => edgeMs > wallMs && pricesAt(edgeMs) !== prices) ??
      edges.findLast((edgeMs) => edgeMs > wallMs) ??
      Number.POSITIVE_INFINITY,
  };
}
