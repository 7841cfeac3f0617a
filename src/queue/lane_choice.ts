/**
 * The names of lanes, and which of them may be used.
 *
 *   kind              realtime, flex, slow, batch, deferred, offpeak: at all providers
 *   provider:kind     at one of them
 *
 * A lane may be used that no list denies, and that each list of allowed ones names. Realtime is always allowed: it is what remains
 * when a deadline is near.
 */
import { nearest } from "../nearest.ts";

/**
 *   realtime   an answer at once, at list price
 *   flex       an answer on the same connection, in seconds to minutes, refused without charge while capacity lacks
 *   slow       the same at another address, in up to an hour
 *   batch      a file of requests
 *   deferred   a request that is submitted, and whose answer is asked for later
 *   offpeak    realtime at hours that cost less
 */
export const OFFER_KINDS = ["realtime", "flex", "slow", "batch", "deferred", "offpeak"] as const;
export type OfferKind = (typeof OFFER_KINDS)[number];

/** Which lanes may be used, by their names. */
export interface LaneChoices {
  /** Absent: all. */
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
}

/**
 * How the price weighs against the time that is left before a deadline.
 *
 *   cheapest   the cheapest lane from which an answer in realtime can still follow in time
 *   balanced   the same, where even a slow answer of that lane leaves time: 99 of 100 of its answers instead of 90
 *   fastest    realtime only
 */
export const LANE_POLICIES = ["cheapest", "balanced", "fastest"] as const;
export type LanePolicy = (typeof LANE_POLICIES)[number];

/** Share of answers in realtime whose time is kept for the end, from 0.5 to 0.9999. */
export const MIN_ON_TIME = { least: 0.5, usual: 0.99, most: 0.9999 } as const;

/** What is wrong with the name of a lane; undefined for a name. Of `<provider>:<kind>` only the kind is checked. */
export function laneFault(name: string): string | undefined {
  const { provider, kind } = partsOf(name);
  if (provider !== "" && isKind(kind)) return undefined;
  const prefix = provider === undefined || provider === "" ? "" : `${provider}:`;
  const meant = provider === "" ? undefined : nearest(kind, OFFER_KINDS);
  const hint =
    meant === undefined
      ? `expected one of ${OFFER_KINDS.join(", ")}, or <provider>:<kind>`
      : `did you mean "${prefix}${meant}"?`;
  return `${JSON.stringify(name.slice(0, 64))} is not a known lane; ${hint}`;
}

/** The provider that the name of a lane is of; undefined for one at all providers. */
export function providerOfLane(name: string): string | undefined {
  return partsOf(name).provider;
}

/** Whether the lists leave realtime at all providers. */
export function keepsRealtime({ deny = [] }: { readonly deny?: readonly string[] | undefined }): boolean {
  return !deny.some((name) => partsOf(name).kind === "realtime");
}

/** What a list says that denies realtime. */
export const REALTIME_NEEDED = "realtime is what remains when a deadline is near: it cannot be denied";

/** Whether a kind of lane of a provider may be used. */
export function isChosen(provider: string, kind: OfferKind, { allow, deny = [] }: LaneChoices): boolean {
  if (kind === "realtime") return true;
  const names = [kind, `${provider}:${kind}`];
  if (names.some((name) => deny.includes(name))) return false;
  return allow === undefined || names.some((name) => allow.includes(name));
}

function partsOf(name: string): { readonly provider: string | undefined; readonly kind: string } {
  const colon = name.lastIndexOf(":");
  return { provider: colon === -1 ? undefined : name.slice(0, colon), kind: name.slice(colon + 1) };
}

function isKind(kind: string): boolean {
  return OFFER_KINDS.some((each) => each === kind);
}
