/**
 * What a price is: rates per million tokens, tiers by the size of a request, and how long they hold.
 *
 * A tier is a cliff: a request with more than `start` input tokens pays the tier's rates for all of its tokens
 * (OpenAI above 272,000, Gemini above 200,000). Rates are USD per million tokens, finite and never negative.
 */

export interface PriceRates {
  readonly inputUsdPerMillion: number;
  /** Input read from the provider's cache; the input rate where no other is known. */
  readonly cachedUsdPerMillion: number;
  /** Input written to the provider's cache (five minutes); the input rate where no other is known. */
  readonly cacheWriteUsdPerMillion: number;
  /** All output, reasoning included. */
  readonly outputUsdPerMillion: number;
}

export interface PriceTier extends PriceRates {
  /** The tier holds for requests with more input tokens than this. */
  readonly start: number;
}

/** The highest rates that a request can meet. */
export interface PriceCeiling {
  /** Holds for requests with more input tokens than this; the first is -1. */
  readonly start: number;
  readonly inputUsdPerMillion: number;
  readonly outputUsdPerMillion: number;
}

/** The price of one model at one moment. */
export interface BasePrice extends PriceRates {
  /** As requested, `<provider>:<name>`. */
  readonly model: string;
  /** What it was found as: the price list's id, or the key in the configuration. */
  readonly matchedModel: string;
  /** False when the price is that of a similar name, found by prefix. */
  readonly isExact: boolean;
  /** By ascending `start`; empty when the size of a request does not matter. */
  readonly tiers: readonly PriceTier[];
  /** The highest rates within 48 hours, by ascending `start`: for upper bounds (`worstCaseUsd`). */
  readonly ceiling: readonly PriceCeiling[];
  /** `genai-prices <version>`, `config` or `local`. */
  readonly source: string;
  /** The day from which the source is, `YYYY-MM-DD`. */
  readonly asOf: string;
  /** Unix milliseconds; negative infinity when it always held. */
  readonly validFromWallMs: number;
  /** Unix milliseconds from which another price holds; positive infinity when no change is known. */
  readonly validUntilWallMs: number;
}

/** Whether no request costs anything, now or within 48 hours; false for an unknown price. */
export function isFree(price: Pick<BasePrice, "ceiling"> | undefined): boolean {
  if (price === undefined) return false;
  return price.ceiling.every((rates) => rates.inputUsdPerMillion + rates.outputUsdPerMillion === 0);
}

/** The rates of a request with this many input tokens. */
export function ratesFor(price: BasePrice, inputTokens: number): PriceRates {
  let rates: PriceRates = price;
  for (const tier of price.tiers) {
    if (inputTokens <= tier.start) break;
    rates = tier;
  }
  return rates;
}

/** The ceiling over several prices that one request may meet; it never falls as requests grow. */
export function ceilingOf(
  prices: readonly (PriceRates & { readonly tiers: readonly PriceTier[] })[],
): PriceCeiling[] {
  const tiers = prices.flatMap((price) => [{ ...price, start: -1 }, ...price.tiers]);
  const starts = [...new Set(tiers.map((tier) => tier.start))].sort((a, b) => a - b);
  return starts.map((start) => {
    const met = tiers.filter((tier) => tier.start <= start);
    return {
      start,
      inputUsdPerMillion: Math.max(
        ...met.map((rates) =>
          Math.max(rates.inputUsdPerMillion, rates.cachedUsdPerMillion, rates.cacheWriteUsdPerMillion),
        ),
      ),
      outputUsdPerMillion: Math.max(...met.map((rates) => rates.outputUsdPerMillion)),
    };
  });
}

/** Servers that people run themselves: nobody sends a bill for their tokens. */
const FREE_PROVIDERS: ReadonlySet<string> = new Set(["echo", "llamacpp", "ollama", "sglang", "vllm"]);

export function isFreeProvider(provider: string): boolean {
  return FREE_PROVIDERS.has(provider);
}

/** The price of a model on a user's own server: zero, and known. */
export function localPrice(model: string, name: string, wallMs: number): BasePrice {
  const free = flatRates({ inputUsdPerMillion: 0, outputUsdPerMillion: 0 });
  return {
    model,
    matchedModel: name,
    isExact: true,
    ...free,
    source: "local",
    asOf: dayOf(wallMs),
    ...ALWAYS,
  };
}

/** The validity of a price that no known date ends. */
export const ALWAYS: Pick<BasePrice, "validFromWallMs" | "validUntilWallMs"> = {
  validFromWallMs: Number.NEGATIVE_INFINITY,
  validUntilWallMs: Number.POSITIVE_INFINITY,
};

/** Rates without tiers; cached and written input cost as input where not given. */
export function flatRates(given: {
  readonly inputUsdPerMillion: number;
  readonly outputUsdPerMillion: number;
  readonly cachedUsdPerMillion?: number;
  readonly cacheWriteUsdPerMillion?: number;
}): PriceRates & Pick<BasePrice, "tiers" | "ceiling"> {
  const rates = {
    inputUsdPerMillion: given.inputUsdPerMillion,
    cachedUsdPerMillion: given.cachedUsdPerMillion ?? given.inputUsdPerMillion,
    cacheWriteUsdPerMillion: given.cacheWriteUsdPerMillion ?? given.inputUsdPerMillion,
    outputUsdPerMillion: given.outputUsdPerMillion,
    tiers: [],
  };
  return { ...rates, ceiling: ceilingOf([rates]) };
}

/** `YYYY-MM-DD` in UTC. */
export function dayOf(wallMs: number): string {
  return new Date(wallMs).toISOString().slice(0, 10);
}
