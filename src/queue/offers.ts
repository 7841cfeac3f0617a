/**
 * Offers: what providers sell besides answers at once at list price. Pure data.
 *
 *   realtime   an answer at once, at list price: every lane has it, and no entry here
 *   flex       an answer on the same connection, in seconds to minutes, refused without charge while there is no capacity
 *
 *   offpeak    an answer at hours that cost less (DeepSeek); the price list knows which
 *
 * An offer is taken for an item whose deadline leaves time for it, and for an answer in realtime behind it (offer_choice.ts).
 *
 * Sources, read in November 2026: OpenAI's guide on flex processing and Gemini's on its flex tier (15 minutes at most, refused with
 * 429 or 503 while capacity lacks, models without it answer 400).
 */
import { isChosen, type LaneChoices } from "./lane_choice.ts";
import { type LanePriors, type LatencyPrior, latencyPrior } from "./lane_priors.ts";

/** What is sold cheaper. */
export type Offer = TierOffer | OffPeakOffer;

/** The same model at the same place, at hours that cost less by the price list. */
export interface OffPeakOffer {
  readonly kind: "offpeak";
}

/** A tier that the request asks for. */
export interface TierOffer {
  readonly kind: "flex";
  /** Share of the list price, in (0, 1). */
  readonly priceFactor: number;
  /** Milliseconds that one attempt may take. */
  readonly attemptMsMax: number;
  /** What answers take, in milliseconds, until they are measured. */
  readonly prior: LatencyPrior;
}

const FLEX_MS_MAX = 900_000;

/** Providers with a flex tier that is asked for in the request. */
const WITH_FLEX: ReadonlySet<string> = new Set(["openai", "gemini", "groq"]);

/** Providers whose prices depend on the hour. */
const WITH_HOURS: ReadonlySet<string> = new Set(["deepseek"]);

/** What a configuration says of offers. */
export interface OfferTerms {
  readonly choices?: LaneChoices;
  readonly priors?: LanePriors;
}

/**
 * The offers of a provider that cost less than its list price. `factorOf`: what it takes of its list price in a tier, undefined
 * where it does not have the tier.
 */
export function offersOf(
  provider: string,
  factorOf: (tier: "flex") => number | undefined,
  { choices = {}, priors }: OfferTerms = {},
): readonly Offer[] {
  if (WITH_HOURS.has(provider) && isChosen(provider, "offpeak", choices)) return [{ kind: "offpeak" }];
  if (!WITH_FLEX.has(provider) || !isChosen(provider, "flex", choices)) return [];
  const priceFactor = factorOf("flex") ?? 1;
  if (priceFactor >= 1) return [];
  const prior = latencyPrior(provider, "flex", priors);
  return [{ kind: "flex", attemptMsMax: FLEX_MS_MAX, prior, priceFactor }];
}
