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
 * 429 or 503 while capacity lacks, models without it answer 400). The prior is of tiny requests that others measured in
 * August and September 2026: half of them within 2.8 s, 95 % within 12.3 s, 5 % refused (37 % of one model's).
 */

/** Names that the configuration knows. */
export const OFFER_KINDS = ["realtime", "flex", "offpeak"] as const;
export type OfferKind = (typeof OFFER_KINDS)[number];

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

/** Quantiles of what answers take, in milliseconds. */
export interface LatencyPrior {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

/** Which lanes may be used: names of kinds, or `<provider>:<kind>`. */
export interface LaneChoices {
  /** Absent: all. */
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
}

const FLEX: Omit<TierOffer, "priceFactor"> = {
  kind: "flex",
  attemptMsMax: 900_000,
  prior: { p50: 2_800, p90: 9_500, p99: 60_000 },
};
/** Providers with a flex tier that is asked for in the request. */
const WITH_FLEX: ReadonlySet<string> = new Set(["openai", "gemini", "groq"]);

/** Providers whose prices depend on the hour. */
const WITH_HOURS: ReadonlySet<string> = new Set(["deepseek"]);

/**
 * The offers of a provider that cost less than its list price. `factorOf`: what it takes of its list price in a tier, undefined
 * where it does not have the tier.
 */
export function offersOf(
  provider: string,
  factorOf: (tier: "flex") => number | undefined,
  choices: LaneChoices = {},
): readonly Offer[] {
  if (WITH_HOURS.has(provider) && isChosen(provider, "offpeak", choices)) return [{ kind: "offpeak" }];
  if (!WITH_FLEX.has(provider) || !isChosen(provider, "flex", choices)) return [];
  const priceFactor = factorOf("flex") ?? 1;
  return priceFactor < 1 ? [{ ...FLEX, priceFactor }] : [];
}

/** What the configuration takes for a lane, in words. */
export const LANE_NAMES: string = `expected one of ${OFFER_KINDS.join(", ")}, or <provider>:<kind>`;

/** Whether a text names a kind of lane, of all providers or of one. */
export function isLaneName(name: string): boolean {
  return OFFER_KINDS.some(
    (kind) => name === kind || (name.endsWith(`:${kind}`) && name.length > kind.length + 1),
  );
}

/** Whether realtime may be used at all providers, or at those that are named. */
export function keepsRealtime({
  allow,
  deny = [],
}: {
  readonly allow?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
}): boolean {
  const isRealtime = (name: string): boolean => name === "realtime" || name.endsWith(":realtime");
  return !deny.some(isRealtime) && (allow === undefined || allow.some(isRealtime));
}

/** Whether a kind of lane may be used. */
function isChosen(provider: string, kind: OfferKind, { allow, deny = [] }: LaneChoices): boolean {
  const names = [kind, `${provider}:${kind}`];
  if (names.some((name) => deny.includes(name))) return false;
  return allow === undefined || names.some((name) => allow.includes(name));
}
