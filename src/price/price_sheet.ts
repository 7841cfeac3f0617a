/**
 * A dated price sheet of the user's own, in the words of the price list:
 *
 *   {"version": "2026-11-20", "models": {"deepseek:deepseek-flash": {"input_mtok": 0.15, "cache_read_mtok": 0.003, "output_mtok": 0.6}}}
 *
 * Prices are USD per million tokens. Keys are those of overrides (`pattern.ts`). Its version is the source of its prices in
 * all that is reckoned with them: `sheet 2026-11-20`.
 */
import { PerigeeError } from "../errors.ts";
import { suggestion } from "../nearest.ts";
import { PEAK_FACTOR_MAX, type PriceOverride, type PriceOverrides } from "./overrides.ts";
import { isModelPattern } from "./pattern.ts";

/** What a sheet says of one model. */
export interface SheetPrice {
  readonly input_mtok: number;
  readonly output_mtok: number;
  /** The input price when absent. */
  readonly cache_read_mtok?: number;
  /** The input price when absent. */
  readonly cache_write_mtok?: number;
  /** What `deepseek` takes of these prices in its peak hours, 1 to 10; absent: the hours do not matter. */
  readonly peak_factor?: number;
}

export interface PriceSheet {
  /** A day such as `2026-11-20`, or any other name; 1 to 64 characters. */
  readonly version: string;
  readonly models: Readonly<Record<string, SheetPrice>>;
}

const PRICE_MEMBERS: readonly string[] = ["input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok"];
const VERSION_CHARS_MAX = 64;

/** Whether the prices are a sheet, and not overrides by model. */
export function isPriceSheet(prices: PriceOverrides | PriceSheet): prices is PriceSheet {
  return typeof prices["version"] === "string";
}

/** Reads a value as a sheet. Throws `invalid_config` that names `where` and the first invalid place. */
export function readPriceSheet(value: unknown, where: string): PriceSheet {
  const sheet = objectAt(value, where);
  refuseOthers(sheet, ["version", "models"], where);
  const { version } = sheet;
  if (typeof version !== "string" || version.length === 0 || version.length > VERSION_CHARS_MAX) {
    const way = version === undefined ? ': add "version" beside "models"' : "";
    throw invalid(
      `${where}: version must be a text such as "2026-11-20", got ${shown(version)}; it names the sheet in summaries${way}`,
    );
  }
  const models = objectAt(sheet["models"], `${where}: models`);
  for (const [model, given] of Object.entries(models)) {
    const at = `${where}: models[${JSON.stringify(model)}]`;
    if (!isModelPattern(model)) throw invalid(`${at} must be "<provider>:<model>", "*" allowed at the end`);
    const price = objectAt(given, at);
    refuseOthers(price, [...PRICE_MEMBERS, "peak_factor"], at);
    const { peak_factor: peak = 1 } = price;
    if (!(typeof peak === "number" && peak >= 1 && peak <= PEAK_FACTOR_MAX))
      throw invalid(`${at}.peak_factor must be a number from 1 to ${PEAK_FACTOR_MAX}, got ${shown(peak)}`);
    for (const name of PRICE_MEMBERS) {
      const usd = price[name];
      const isAbsent = usd === undefined && name.startsWith("cache_");
      if (!isAbsent && !(typeof usd === "number" && Number.isFinite(usd) && usd >= 0))
        throw invalid(`${at}.${name} must be USD per million tokens, from 0, got ${shown(usd)}`);
    }
  }
  return { version, models: models as PriceSheet["models"] }; // each was checked
}

/** As overrides. */
export function overridesOf({ version, models }: PriceSheet): PriceOverrides {
  const day = /^\d{4}-\d{2}-\d{2}$/.test(version) && !Number.isNaN(Date.parse(version));
  const overrides: Record<string, PriceOverride> = {};
  for (const [model, price] of Object.entries(models))
    overrides[model] = {
      inputUsdPerMillion: price.input_mtok,
      outputUsdPerMillion: price.output_mtok,
      ...(price.cache_read_mtok === undefined ? {} : { cachedUsdPerMillion: price.cache_read_mtok }),
      ...(price.cache_write_mtok === undefined ? {} : { cacheWriteUsdPerMillion: price.cache_write_mtok }),
      ...(price.peak_factor === undefined ? {} : { peakFactor: price.peak_factor }),
      ...(day ? { asOf: version } : {}),
      sheet: version,
    };
  return overrides;
}

/** How a model without a known price gets one, with the line of a sheet. */
export function howToPrice(model: string): string {
  return `add "${model}": {"input_mtok": ..., "output_mtok": ...} (USD per million tokens) to "models" of the price sheet`;
}

function objectAt(value: unknown, where: string): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid(`${where} must be an object, got ${shown(value)}`);
  return value as Readonly<Record<string, unknown>>; // any object can be read by name
}

function refuseOthers(
  value: Readonly<Record<string, unknown>>,
  names: readonly string[],
  where: string,
): void {
  const other = Object.keys(value).find((name) => !names.includes(name));
  if (other === undefined) return;
  const isModel = names.includes("models") && isModelPattern(other);
  const way = isModel ? 'put the prices of models into "models"' : suggestion(other, names);
  throw invalid(`${where}: "${other.slice(0, 64)}" is not a known name; ${way}`);
}

function shown(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 64) ?? "nothing";
}

function invalid(message: string): PerigeeError {
  return new PerigeeError("invalid_config", message);
}
