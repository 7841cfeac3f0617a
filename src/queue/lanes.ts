/**
 * Lanes: the ways to run a model. A lane is a provider, a kind of answering, and a family of models that share its limits.
 *
 * What a lane is, is one value, its terms, which modules pass on whole. Another kind (slow answers, batches, off-peak hours)
 * joins the union `LaneTerms` with the terms that only it has.
 */

interface CommonTerms {
  /** The name before the colon of a model. */
  readonly provider: string;
  /** Models that the provider counts together; see `familyOf`. */
  readonly family: string;
  /** The lane as text. */
  readonly key: LaneKey;
  /** Price relative to the list, above 0. */
  readonly priceFactor: number;
}

/** Each request is answered on its connection. */
export interface RealtimeTerms extends CommonTerms {
  readonly kind: "realtime";
  /** Milliseconds that one attempt may take. */
  readonly attemptMsMax: number;
}

export type LaneTerms = RealtimeTerms;

export type LaneKind = LaneTerms["kind"];

/** Milliseconds that one attempt may take if nothing else is configured. */
export const ATTEMPT_MS_MAX = 600_000;

/**
 * Which models count together, as configured: provider, then model, to a family's name. A model that ends in `*` is
 * for all that begin so; the exact name wins over the longest beginning. Example:
 * `{ anthropic: { "claude-opus-4*": "claude-opus-4" } }`.
 */
export type FamilySettings = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** A lane as text: `<provider>:<kind>:<family>`. */
export type LaneKey = string;

/** The realtime lane of a family, at list price. */
export function realtimeLane(
  provider: string,
  family: string,
  attemptMsMax: number = ATTEMPT_MS_MAX,
): RealtimeTerms {
  const key = laneKey(provider, "realtime", family);
  return { kind: "realtime", provider, family, key, priceFactor: 1, attemptMsMax };
}

/** The same text only for equal lanes: neither providers nor kinds hold a colon. */
export function laneKey(provider: string, kind: LaneKind, family: string): LaneKey {
  return `${provider}:${kind}:${family}`;
}

/** The provider of a lane. */
export function providerOfLane(key: LaneKey): string {
  return key.slice(0, key.indexOf(":"));
}

/** The family of a lane, which may hold colons. */
export function familyOfLane(key: LaneKey): string {
  return key.slice(key.indexOf(":", key.indexOf(":") + 1) + 1);
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
