/**
 * Lanes: the ways to run a model. A lane is a provider, a tier of it, and a family of models that share its limits.
 *
 * Tiers: `realtime` (list price, seconds), `flex` (cheaper, may be refused), `batch` (cheaper, hours), `offpeak`
 * (cheaper, at certain hours).
 */

export type Tier = "realtime" | "flex" | "batch" | "offpeak";

export interface LaneAddress {
  /** The name before the colon of a model. */
  readonly provider: string;
  readonly tier: Tier;
  /** Models that the provider counts together; see `familyOf`. */
  readonly family: string;
}

/**
 * Which models count together, as configured: provider, then model, to a family's name. A model that ends in `*` is
 * for all that begin so; the exact name wins over the longest beginning. Example:
 * `{ anthropic: { "claude-opus-4*": "claude-opus-4" } }`.
 */
export type FamilySettings = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** A lane as text: `<provider>:<tier>:<family>`. */
export type LaneKey = string;

/** The same text only for equal lanes: neither providers nor tiers hold a colon. */
export function laneKey(lane: LaneAddress): LaneKey {
  return `${lane.provider}:${lane.tier}:${lane.family}`;
}

/** The provider of a lane. */
export function providerOfLane(key: LaneKey): string {
  return key.slice(0, key.indexOf(":"));
}

/** The realtime lane of a family. */
export function realtimeLane(provider: string, family: string): LaneAddress {
  return { provider, tier: "realtime", family };
}

/** OpenRouter's price variant. */
const VARIANT = /:free$/;
/** The release date of OpenAI (-2024-07-18), Anthropic (-20241022) and Vertex (@20241022), or -latest. */
const RELEASE = /(?:-\d{4}-\d{2}-\d{2}|[-@]20\d{6}|-latest)$/;

/** The family of a model: as configured, else its name without date and `:free`; never empty. */
export function familyOf(provider: string, model: string, families: FamilySettings = {}): string {
  const configured = Object.hasOwn(families, provider) ? (families[provider] ?? {}) : {};
  if (Object.hasOwn(configured, model)) return configured[model] || model;
  let longest = "";
  for (const pattern of Object.keys(configured))
    if (pattern.endsWith("*") && pattern.length > longest.length && model.startsWith(pattern.slice(0, -1)))
      longest = pattern;
  if (longest !== "") return configured[longest] || model;
  return model.replace(VARIANT, "").replace(RELEASE, "") || model;
}
