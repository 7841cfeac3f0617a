/**
 * Offers: what providers sell besides answers at once at list price. Pure data.
 *
 *   realtime   an answer at once, at list price: every lane has it, and no entry here
 *   flex       an answer on the same connection, in seconds to minutes, refused without charge while capacity lacks
 *   slow       the same calls at another address, answered in up to an hour (DashScope's Batch Chat)
 *   offpeak    an answer at hours that cost less (DeepSeek); the price list knows which
 *
 * An offer is taken for an item whose deadline leaves time for it, and for an answer in realtime behind it (offer_choice.ts).
 *
 * Sources, read in November 2026: OpenAI's guide on flex processing and Gemini's on its flex tier (15 minutes at most, refused with
 * 429 or 503 while capacity lacks, models without it answer 400); DashScope's on Batch Chat (an hour at most).
 *
 * Groq's flex costs as much as realtime and is not used: what it has is ten times the limits, which are limits of their own.
 */
import { isChosen, type LaneChoices } from "./lane_choice.ts";
import { type LanePriors, type LatencyPrior, latencyPrior } from "./lane_priors.ts";

/** What is sold cheaper. */
export type Offer = TierOffer | OffPeakOffer;

/** The same model at the same place, at hours that cost less by the price list. */
export interface OffPeakOffer {
  readonly kind: "offpeak";
}

/** A tier that the request asks for, or the address that it is sent to. */
export interface TierOffer {
  readonly kind: "flex" | "slow";
  /** Share of the list price, in (0, 1). */
  readonly priceFactor: number;
  /** Milliseconds that one attempt may take. */
  readonly attemptMsMax: number;
  /** What answers take, in milliseconds, until they are measured. */
  readonly prior: LatencyPrior;
}

/** Slow calls have a minute more than the provider takes, which then ends them itself: a time-out here would leave them in doubt. */
const MS_MAX = { flex: 900_000, slow: 3_660_000 } as const;

/** Providers with a flex tier that is asked for in the request. */
const WITH_FLEX: ReadonlySet<string> = new Set(["openai", "gemini", "groq"]);

/** Providers whose prices depend on the hour. */
const WITH_HOURS: ReadonlySet<string> = new Set(["deepseek"]);

/** What a configuration says of offers. */
export interface OfferTerms {
  readonly choices?: LaneChoices;
  readonly priors?: LanePriors;
  /** Whether the provider has an address at which calls are slow and cost less. */
  readonly hasSlow?: boolean;
}

/**
 * The offers of a provider that cost less than its list price. `factorOf`: what it takes of its list price in a tier, undefined
 * where it does not have the tier.
 */
export function offersOf(
  provider: string,
  factorOf: (tier: "flex" | "slow") => number | undefined,
  { choices = {}, priors, hasSlow = false }: OfferTerms = {},
): readonly Offer[] {
  if (WITH_HOURS.has(provider) && isChosen(provider, "offpeak", choices)) return [{ kind: "offpeak" }];
  const kinds = [
    ...(hasSlow ? (["slow"] as const) : []),
    ...(WITH_FLEX.has(provider) ? (["flex"] as const) : []),
  ];
  return kinds.flatMap((kind) => {
    const priceFactor = factorOf(kind) ?? 1;
    if (priceFactor >= 1 || !isChosen(provider, kind, choices)) return [];
    const prior = latencyPrior(provider, kind, priors);
    return [{ kind, attemptMsMax: MS_MAX[kind], prior, priceFactor }];
  });
}
