/**
 * What a provider takes of its list price in each tier: `laneFactor[provider][tier]`.
 *
 * Sources, read in November 2026: OpenAI's, Anthropic's, Google's and Fireworks' pricing pages; a copy of LiteLLM's
 * price file (2026-07-24), in which all 53 batch and all 28 flex entries are exactly 0.5 of the list price. Entries
 * that rest on other people's word are not `isVerified`. A tier that a provider does not offer has no entry.
 *
 * DeepSeek's cheap hours are not a factor: its base price already follows the clock (`base.ts`).
 */

export type LaneTier = "realtime" | "flex" | "slow" | "batch" | "deferred" | "priority";

export interface LaneFactor {
  /** Share of the list price, of input and output. */
  readonly factor: number;
  /** The same for cached input. */
  readonly cachedFactor: number;
  readonly isVerified: boolean;
}

/** Factors of the configuration: by provider, then by tier; 0 to 10. */
export type LaneFactorOverrides = Readonly<Record<string, Readonly<Partial<Record<LaneTier, number>>>>>;

const FULL: LaneFactor = { factor: 1, cachedFactor: 1, isVerified: true };
const HALF: LaneFactor = { factor: 0.5, cachedFactor: 0.5, isVerified: true };
const HALF_UNVERIFIED: LaneFactor = { ...HALF, isVerified: false };
const DOUBLE_UNVERIFIED: LaneFactor = { factor: 2, cachedFactor: 2, isVerified: false };

const LANE_FACTORS: ReadonlyMap<string, Readonly<Partial<Record<LaneTier, LaneFactor>>>> = new Map([
  // https://platform.openai.com/docs/pricing; cached input is halved under flex too. `fast` is billed as priority.
  ["openai", { flex: HALF, batch: HALF, priority: DOUBLE_UNVERIFIED }],
  // https://docs.claude.com/en/docs/about-claude/pricing: batches halve input and output and stack with caching. Priority
  // is a commitment that is bought beforehand: its tokens cost no more.
  ["anthropic", { batch: HALF, priority: { ...FULL, isVerified: false } }],
  // https://ai.google.dev/gemini-api/docs/batch-api: batches keep the full price of cached input. Priority is 1.75 to 2.
  [
    "gemini",
    { flex: HALF, batch: { factor: 0.5, cachedFactor: 1, isVerified: true }, priority: DOUBLE_UNVERIFIED },
  ],
  // Groq's flex buys ten times the limits at the same price.
  ["groq", { flex: FULL, batch: HALF_UNVERIFIED }],
  ["mistral", { batch: HALF_UNVERIFIED }],
  // https://help.aliyun.com/zh/model-studio/openai-compatible-batch-chat: 50 % "for a limited time"; no context cache.
  ["dashscope", { slow: HALF, batch: HALF }],
  // Cached tokens in batches cost a further half.
  ["fireworks", { batch: { factor: 0.5, cachedFactor: 0.25, isVerified: true } }],
  // Only for listed models: no entry here, to be configured for those.
  ["together", {}],
  // By model, typically half; each answer says what was charged.
  ["openrouter", { batch: HALF_UNVERIFIED }],
]);

/** The factor of a provider's tier; undefined when it does not offer that tier. Realtime is 1 everywhere. */
export function laneFactor(
  provider: string,
  tier: LaneTier,
  overrides: LaneFactorOverrides = {},
): LaneFactor | undefined {
  const own = Object.hasOwn(overrides, provider) ? overrides[provider]?.[tier] : undefined;
  if (own !== undefined) return { factor: own, cachedFactor: own, isVerified: true };
  return LANE_FACTORS.get(provider)?.[tier] ?? (tier === "realtime" ? FULL : undefined);
}

/** The factor of what a provider takes and answers later; undefined when it does not sell it, or only for more than the list price. */
export function remoteFactor(
  provider: string,
  kind: "batch" | "deferred",
  overrides: LaneFactorOverrides,
): number | undefined {
  const factor = laneFactor(provider, kind, overrides)?.factor;
  return factor === undefined || factor > 1 ? undefined : factor;
}

/**
 * The factor for a provider's name of a tier, requested or served. If the provider's prices are not known, as of a custom server,
 * priority costs twice the list price and cheaper tiers cost all of it. An unknown name costs as much as the dearest tier.
 */
export function laneFactorOf(
  provider: string,
  word: string | undefined,
  overrides?: LaneFactorOverrides,
): LaneFactor {
  const tier = laneTierOf(word);
  if (tier !== undefined)
    return laneFactor(provider, tier, overrides) ?? (tier === "priority" ? DOUBLE_UNVERIFIED : FULL);
  const known = Object.values(LANE_FACTORS.get(provider) ?? {});
  return known.reduce((dearest, one) => (one.factor > dearest.factor ? one : dearest), DOUBLE_UNVERIFIED);
}

/** The tier that a provider's word means; without one, realtime. */
export function laneTierOf(servedTier: string | undefined): LaneTier | undefined {
  switch (servedTier?.toLowerCase()) {
    case "flex":
      return "flex";
    case "slow":
      return "slow"; // no provider says it: it is known by the address (engine/offers/tier_offers.ts)
    case "batch":
      return "batch";
    case "deferred":
      return "deferred"; // Gemini's; its discount is documented, how much it is, is not: it is configured
    case "priority":
    case "fast":
      return "priority";
    case undefined:
    case "auto":
    case "default":
    case "on_demand":
    case "scale":
    case "standard":
    case "standard_only":
      return "realtime";
    default:
      return undefined;
  }
}
