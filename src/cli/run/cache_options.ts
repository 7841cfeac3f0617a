/**
 * The options of `perigee run` for a cache of answers.
 */
import type { CacheOptions } from "../../engine/config/cache_terms.ts";
import { PerigeeError } from "../../errors.ts";

/** As commander parses them. */
export interface CacheArguments {
  readonly cache?: string;
  readonly cacheTtl?: string;
  readonly coalesce?: boolean;
}

/** As the library takes them. Throws `usage` for what works only with `--cache`. */
export function cacheOptions({ cache, cacheTtl, coalesce }: CacheArguments): CacheOptions {
  if (cache === undefined) {
    const vain = cacheTtl !== undefined ? "--cache-ttl" : coalesce === true ? "--coalesce" : undefined;
    if (vain === undefined) return {};
    throw new PerigeeError("usage", `${vain} works only with --cache: add --cache with a folder`);
  }
  const terms = { dir: cache, ...(cacheTtl === undefined ? {} : { ttl: cacheTtl }) };
  return { cache: terms, ...(coalesce === true ? { coalesce } : {}) };
}
