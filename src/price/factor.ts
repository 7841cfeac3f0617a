/**
 * The price factor: what share of the base price an item pays for the window that it allows and the volume that it
 * comes with.
 *
 *   factor = max(floor, 1 - laneDiscount x reach(sla, lane) - poolDiscount x reach(sla, pool) x reach(volume))
 *   reach(x, full, half) = min(1, (1 + half / full) / (1 + half / x))          0 at 0, 1 from `full` on
 *
 * The longer the window, the more of the work can wait for lanes at half price (flex, batch, idle hours): all of it
 * from 24 hours on. And the larger the volume, the more of it shares prefixes and fills batches; pooling needs time
 * as well, so that it counts fully from 7 days and 10 G tokens on. Rationale and table: docs/reference/price-factor.md.
 *
 * Where work is sold, its price also covers what the work is expected to cost (`costFloor`):
 *
 *   sold at = max(factor, min(1, cost / list x (1 + margin)))           rounded up to 4 decimals
 *
 * The factor lies within [0.3, 1], is 1 without an sla, continuous (until it is rounded to 4 decimals), and never
 * rises with the sla nor with the volume. That holds exactly, not to rounding errors: each operation on the way is
 * monotone in IEEE arithmetic, which is why the curve is built of divisions and not of logarithms.
 */
import { PerigeeError } from "../errors.ts";
import { isModelPattern, matchingKey } from "./pattern.ts";

const PRICE_FACTOR_MIN = 0.3;

/** How the factor of a model falls. Windows are minutes, volumes tokens; all positive. */
export interface FactorRate {
  /** The lowest factor, in [0.3, 1]. */
  readonly floor: number;
  /** Taken off when all of the work can wait for the cheapest lane, in [0, 0.7]: 1 - the factor of that lane. */
  readonly laneDiscount: number;
  /** From here on all of the work can wait. */
  readonly laneFullMinutes: number;
  /** Sets the bend: the smaller, the sooner short windows pay off. */
  readonly laneHalfMinutes: number;
  /** Taken off when a full volume can be pooled, in [0, 0.7]. */
  readonly poolDiscount: number;
  readonly poolFullMinutes: number;
  readonly poolHalfMinutes: number;
  readonly volumeFullTokens: number;
  readonly volumeHalfTokens: number;
}

/** Rates by model: keys as in `pattern.ts`; what an entry leaves out is taken from `standard`. */
export interface RateCard {
  readonly standard: FactorRate;
  readonly models: Readonly<Record<string, Partial<FactorRate>>>;
  /** Below which no factor of a piece of work lies, because of what it is expected to cost. Default: none. */
  readonly costFloors?: CostFloors;
}

/** The lowest factors of work with an sla, in [0, 1]. */
export interface CostFloors {
  /** By `<provider>:<name>`. */
  readonly models: Readonly<Record<string, number>>;
  /** Of all other models. */
  readonly others: number;
}

/** The lowest factor at which a price covers a cost and a margin: `costShare` of the list price times 1 + `margin`, at most 1. */
export function costFloor(costShare: number, margin: number): number {
  const floor = Math.min(1, Math.max(0, costShare * (1 + margin)));
  return Math.ceil(floor * 10_000 - ROUNDING) / 10_000;
}

/** What a product of doubles may be above the decimals that were meant. */
const ROUNDING = 1e-9;

/** A factor that is at least a floor; both have 4 decimals. */
export function flooredFactor(model: string, factor: number, floors: CostFloors | undefined): number {
  if (floors === undefined) return factor;
  return Math.max(factor, Object.hasOwn(floors.models, model) ? (floors.models[model] ?? 0) : floors.others);
}

/** The published rate card. */
export const RATE_CARD: RateCard = {
  standard: {
    floor: PRICE_FACTOR_MIN,
    laneDiscount: 0.5,
    laneFullMinutes: 1_440,
    laneHalfMinutes: 120,
    poolDiscount: 0.2,
    poolFullMinutes: 10_080,
    poolHalfMinutes: 1_440,
    volumeFullTokens: 10_000_000_000,
    volumeHalfTokens: 100_000_000,
  },
  models: {
    // No batch lane for most models.
    "together:*": { laneDiscount: 0 },
    // No cheap lane: the base price itself is halved outside of peak hours.
    "deepseek:*": { laneDiscount: 0 },
  },
};

/** Bytes of input that count as one token of volume. */
const VOLUME_BYTES_PER_TOKEN = 4;

/**
 * The volume of a task in tokens: a quarter of its input's bytes, known when the task is accepted. A stream's size is
 * not known then: it counts as 0 (`undefined`).
 */
export function volumeTokensOf(inputBytes: number | undefined): number {
  return Math.ceil((inputBytes ?? 0) / VOLUME_BYTES_PER_TOKEN);
}

/**
 * The price factor of a model (`<provider>:<name>`) for an sla in minutes and a volume in tokens, rounded to 4 decimals.
 * The volume is that of the whole task (`volumeTokensOf`); nonsense counts as 0.
 */
export function priceFactor(
  model: string,
  slaMinutes: number | undefined,
  volumeTokens: number,
  card: RateCard = RATE_CARD,
): number {
  if (slaMinutes === undefined) return 1;
  const rate = rateOf(model, card);
  const lane = reach(slaMinutes, rate.laneFullMinutes, rate.laneHalfMinutes);
  const pool = reach(slaMinutes, rate.poolFullMinutes, rate.poolHalfMinutes);
  const volume = reach(volumeTokens, rate.volumeFullTokens, rate.volumeHalfTokens);
  const factor = 1 - rate.laneDiscount * lane - rate.poolDiscount * pool * volume;
  const rounded = Math.round(Math.min(1, Math.max(rate.floor, factor)) * 10_000) / 10_000;
  return flooredFactor(model, rounded, card.costFloors);
}

/** Throws `invalid_config` when a rate of the card is out of its range. */
export function checkRateCard(card: RateCard): void {
  checkRate("standard", card.standard);
  for (const [key, given] of Object.entries(card.models)) {
    if (!isModelPattern(key))
      throw invalid(`rate card: key must be "<provider>:<model>", "*" allowed at the end, got "${key}"`);
    checkRate(key, { ...card.standard, ...given });
  }
}

function rateOf(model: string, card: RateCard): FactorRate {
  const key = matchingKey(card.models, model);
  return key === undefined ? card.standard : { ...card.standard, ...card.models[key] };
}

/** The part of `full` that `x` has reached: 0 to 1, concave, never falling. */
function reach(x: number, full: number, half: number): number {
  return x > 0 ? Math.min(1, (1 + half / full) / (1 + half / x)) : 0;
}

function checkRate(where: string, rate: FactorRate): void {
  const inRange = (name: keyof FactorRate, min: number, max: number): void => {
    const value: unknown = rate[name];
    if (typeof value === "number" && value >= min && value <= max) return;
    throw invalid(`rate card: ${where}.${name} must be from ${min} to ${max}, got ${String(value)}`);
  };
  inRange("floor", PRICE_FACTOR_MIN, 1);
  inRange("laneDiscount", 0, 1 - PRICE_FACTOR_MIN);
  inRange("poolDiscount", 0, 1 - PRICE_FACTOR_MIN);
  for (const name of ["laneFullMinutes", "laneHalfMinutes", "poolFullMinutes", "poolHalfMinutes"] as const)
    inRange(name, 1, 1e6);
  for (const name of ["volumeFullTokens", "volumeHalfTokens"] as const) inRange(name, 1, 1e15);
}

function invalid(message: string): PerigeeError {
  return new PerigeeError("invalid_config", message);
}
