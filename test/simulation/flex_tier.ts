/**
 * The cheaper tier of a simulated provider: what it does to requests that ask for it, drawn once for a world.
 *
 *   request with `service_tier: "flex"` --model without the tier------> 400
 *                                       --no capacity-----------------> 429 without a named limit
 *                                       --the tier fails--------------> 500, and nothing is billed
 *                                       --otherwise, perhaps minutes--> what its line comes to, by this tier or by another one
 */
import type { Feature } from "./features.ts";
import { pick, type Random } from "./workload.ts";

/** The engine knows by this name that it has the tier. */
export const FLEX_PROVIDER = "openai";
/** What it takes of its list price in the tier. */
export const FLEX_FACTOR = 0.5;

/** Of worlds with the tier: besides what they are forced to meet, only the tier goes wrong, and those beside it. */
export const QUIET_SHARE = 0.7;
export const QUIET: ReadonlySet<Feature> = new Set<Feature>([
  "flex",
  "deadline",
  "models",
  "shared_limit",
  "concurrency",
  "projects",
  "ordered",
]);

/** Shares are from 0 to 1. */
export interface FlexTier {
  readonly shedShare: number;
  readonly errorShare: number;
  /** Of answers that take up to `slowMsMax`. */
  readonly slowShare: number;
  /** Milliseconds. */
  readonly slowMsMax: number;
  /** Of answers that another tier gives, at its price. */
  readonly otherShare: number;
  readonly modelsWithout: ReadonlySet<string>;
}

/** What becomes of one request in the tier. */
export type FlexFate =
  | { readonly is: "shed" | "error" | "unknown" }
  | { readonly is: "taken"; readonly moreMs: number; readonly isOther: boolean };

export function drawFlex(random: Random, models: readonly string[]): FlexTier {
  const isNarrow = random() < 0.15;
  return {
    shedShare: pick(random, [0, 0.05, 0.2, 0.4, 0.6]),
    errorShare: pick(random, [0, 0, 0, 0.05, 0.3, 1]),
    slowShare: pick(random, [0, 0.05, 0.3, 1]),
    slowMsMax: pick(random, [20_000, 120_000, 840_000]),
    otherShare: pick(random, [0, 0, 0.1, 1]),
    modelsWithout: new Set(isNarrow ? models.slice(0, 1 + Math.floor(random() * models.length)) : []),
  };
}

/** In minutes. */
export function drawFlexSla(random: Random): number {
  return pick(random, [2, 3, 5, 20, 60, 360]);
}

export function drawFate(tier: FlexTier, model: string, random: Random): FlexFate {
  if (tier.modelsWithout.has(model)) return { is: "unknown" };
  if (random() < tier.shedShare) return { is: "shed" };
  if (random() < tier.errorShare) return { is: "error" };
  const moreMs = random() < tier.slowShare ? random() * tier.slowMsMax : 0;
  return { is: "taken", moreMs, isOther: random() < tier.otherShare };
}
