/**
 * The cache of a run, as its caller names it.
 */
import { PerigeeError } from "../../errors.ts";
import { parseDurationMs } from "../../work/sla.ts";

/** A cache of answers by what was asked. */
export interface AnswerCacheTerms {
  /** Its folder, made when it does not exist. Runs and processes of one user may share it at the same time. */
  readonly dir: string;
  /** How old an answer may be, such as `90m`, `24h` or `7d`; default `30d`. Older ones are asked for again and replaced. */
  readonly ttl?: string;
  /** Bytes of all answers, from 1 MiB; beyond, those not used for longest are deleted. Default 1 GiB. */
  readonly maxBytes?: number;
}

/** What a call says of it. */
export interface CacheOptions {
  /** Requests that were answered before are answered from it, and new answers are kept there. Default: none. */
  readonly cache?: AnswerCacheTerms;
  /**
   * Lines of a run whose requests are the same are asked once, also where their temperature is not 0. Only with `cache`.
   * Default false.
   */
  readonly coalesce?: boolean;
}

const DEFAULT_TTL = "30d";
const DEFAULT_BYTES = 1 << 30;
/** Bytes of all answers at least. */
export const CACHE_BYTES_MIN: number = 1 << 20;

/** Throws `usage` for what cannot be; `where` names the call. */
export function checkCache({ cache, coalesce }: CacheOptions, where: string): void {
  if (cache === undefined) {
    if (coalesce !== true) return;
    throw new PerigeeError(
      "usage",
      `${where}: coalesce works only with cache: name its folder, cache: { dir }`,
    );
  }
  const { ttl, maxBytes } = cache;
  if (ttl !== undefined && !((typeof ttl === "string" ? (parseDurationMs(ttl) ?? 0) : 0) > 0))
    throw new PerigeeError(
      "usage",
      `${where}: cache.ttl must be a duration such as 90m, 24h or 7d, got ${JSON.stringify(ttl)}`,
    );
  if (maxBytes !== undefined && !(Number.isInteger(maxBytes) && maxBytes >= CACHE_BYTES_MIN))
    throw new PerigeeError(
      "usage",
      `${where}: cache.maxBytes must be a whole number of bytes from ${CACHE_BYTES_MIN}, got ${JSON.stringify(maxBytes)}`,
    );
}

/** With the defaults. */
export interface ResolvedCache {
  readonly dir: string;
  readonly ttlMs: number;
  readonly maxBytes: number;
}

/** Of what is checked. */
export function resolvedCache({
  dir,
  ttl = DEFAULT_TTL,
  maxBytes = DEFAULT_BYTES,
}: AnswerCacheTerms): ResolvedCache {
  return { dir, ttlMs: parseDurationMs(ttl) ?? 0, maxBytes };
}
