/**
 * Prices of the configuration, which take precedence over every other source.
 *
 * Keys are `<provider>:<model>`, or a prefix of that followed by `*`; see `pattern.ts` for which one wins.
 */
import { PerigeeError } from "../errors.ts";
import { isModelPattern, matchingKey } from "./pattern.ts";
import { ALWAYS, type BasePrice, dayOf, flatRates } from "./rates.ts";

/** A price as configured: USD per million tokens, finite and not negative. */
export interface PriceOverride {
  readonly inputUsdPerMillion: number;
  readonly outputUsdPerMillion: number;
  /** The input price when absent. */
  readonly cachedUsdPerMillion?: number;
  /** The input price when absent. */
  readonly cacheWriteUsdPerMillion?: number;
  /** The day from which the price is, `YYYY-MM-DD`; the day of use when absent. */
  readonly asOf?: string;
  /** The version of its price sheet, which is then the source. */
  readonly sheet?: string;
}

export type PriceOverrides = Readonly<Record<string, PriceOverride>>;

/** The configured price of a model; undefined without one. Throws `invalid_config` when it is not a price. */
export function overriddenPrice(
  overrides: PriceOverrides,
  model: string,
  wallMs: number,
): BasePrice | undefined {
  const key = matchingKey(overrides, model);
  const override = key === undefined ? undefined : overrides[key];
  if (key === undefined || override === undefined) return undefined;
  checkOverride(key, override);
  return {
    model,
    matchedModel: key,
    isExact: true,
    ...flatRates(override),
    source: override.sheet === undefined ? "config" : `sheet ${override.sheet}`,
    asOf: override.asOf ?? dayOf(wallMs),
    ...ALWAYS,
  };
}

/** Throws `invalid_config` at the first key or price that cannot be. */
export function checkPriceOverrides(overrides: PriceOverrides): void {
  for (const [key, override] of Object.entries(overrides)) {
    if (!isModelPattern(key))
      throw invalid(`prices: key must be "<provider>:<model>", "*" allowed at the end, got "${key}"`);
    checkOverride(key, override);
  }
}

function checkOverride(key: string, override: PriceOverride): void {
  const { inputUsdPerMillion, outputUsdPerMillion, cachedUsdPerMillion, cacheWriteUsdPerMillion } = override;
  checkUsd(`${key}.inputUsdPerMillion`, inputUsdPerMillion);
  checkUsd(`${key}.outputUsdPerMillion`, outputUsdPerMillion);
  if (cachedUsdPerMillion !== undefined) checkUsd(`${key}.cachedUsdPerMillion`, cachedUsdPerMillion);
  if (cacheWriteUsdPerMillion !== undefined)
    checkUsd(`${key}.cacheWriteUsdPerMillion`, cacheWriteUsdPerMillion);
  if (override.asOf !== undefined && !isDay(override.asOf))
    throw invalid(
      `prices: ${key}.asOf must be a day such as 2026-11-20, got ${JSON.stringify(override.asOf)}`,
    );
}

function checkUsd(where: string, value: unknown): void {
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return;
  throw invalid(`prices: ${where} must be USD from 0, got ${String(value)}`);
}

function isDay(text: string): boolean {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text));
}

function invalid(message: string): PerigeeError {
  return new PerigeeError("invalid_config", message);
}
