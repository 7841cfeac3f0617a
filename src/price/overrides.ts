/**
 * Prices of the configuration, which take precedence over every other source.
 *
 * Keys are `<provider>:<model>`, or a prefix of that followed by `*`; see `pattern.ts` for which one wins.
 */
import { PerigeeError } from "../errors.ts";
import type { OffPeakDays } from "./off_peak_days.ts";
import { isModelPattern, matchingKey } from "./pattern.ts";
import { peakSpanAt } from "./peak_hours.ts";
import { ALWAYS, type BasePrice, dayOf, flatRates } from "./rates.ts";

/** The most that `peakFactor` may be. */
export const PEAK_FACTOR_MAX = 10;

/** A price as configured: USD per million tokens, finite and not negative. */
export interface PriceOverride {
  readonly inputUsdPerMillion: number;
  readonly outputUsdPerMillion: number;
  /** The input price when absent. */
  readonly cachedUsdPerMillion?: number;
  /** The input price when absent. */
  readonly cacheWriteUsdPerMillion?: number;
  /** What `deepseek` takes of this price in its peak hours, 1 to 10; absent: the hours do not matter. */
  readonly peakFactor?: number;
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
  offPeakDays: OffPeakDays,
): BasePrice | undefined {
  const key = matchingKey(overrides, model);
  const override = key === undefined ? undefined : overrides[key];
  if (key === undefined || override === undefined) return undefined;
  checkOverride(key, override);
  const { peakFactor = 1 } = override;
  const { isPeak, ...validity } =
    peakFactor === 1 || !model.startsWith("deepseek:")
      ? { ...ALWAYS, isPeak: false }
      : peakSpanAt(wallMs, offPeakDays);
  const peak = flatRates(times(override, peakFactor));
  return {
    model,
    matchedModel: key,
    isExact: true,
    ...(isPeak ? peak : flatRates(override)),
    ...(validity.validUntilWallMs === Number.POSITIVE_INFINITY ? {} : { ceiling: peak.ceiling }),
    source: override.sheet === undefined ? "config" : `sheet ${override.sheet}`,
    asOf: override.asOf ?? dayOf(wallMs),
    ...validity,
  };
}

type Rates = Parameters<typeof flatRates>[0];

function times(rates: Rates, factor: number): Rates {
  const { inputUsdPerMillion, outputUsdPerMillion, cachedUsdPerMillion, cacheWriteUsdPerMillion } = rates;
  return {
    inputUsdPerMillion: inputUsdPerMillion * factor,
    outputUsdPerMillion: outputUsdPerMillion * factor,
    ...(cachedUsdPerMillion === undefined ? {} : { cachedUsdPerMillion: cachedUsdPerMillion * factor }),
    ...(cacheWriteUsdPerMillion === undefined
      ? {}
      : { cacheWriteUsdPerMillion: cacheWriteUsdPerMillion * factor }),
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
  const { peakFactor = 1 } = override;
  if (!(peakFactor >= 1 && peakFactor <= PEAK_FACTOR_MAX))
    throw invalid(
      `prices: ${key}.peakFactor must be a number from 1 to ${PEAK_FACTOR_MAX}, got ${peakFactor}`,
    );
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
