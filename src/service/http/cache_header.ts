/**
 * The header with which a caller asks for answers from the cache: `x-perigee-cache: 1h`, how old they may be at most.
 *
 * The operator's `cache.ttl` is the most: an age above it means that.
 */
import type { ResolvedCache } from "../../engine/config/cache_terms.ts";
import { PerigeeError } from "../../errors.ts";
import { parseDurationMs } from "../../work/sla.ts";
import type { FastifyRequest } from "./fastify.ts";

const CACHE_HEADER = "x-perigee-cache";
/** Of the answer's response: whether it is from the cache. */
export const CACHED_HEADER = "x-perigee-cached";

/** How old an answer may be; undefined without the header. Throws `usage` (`details.param`), also where the service has no cache. */
export function cacheTtlOf(
  { headers }: Pick<FastifyRequest, "headers">,
  cache: ResolvedCache | undefined,
): string | undefined {
  const text = headers[CACHE_HEADER];
  if (text === undefined) return undefined;
  const ms = typeof text === "string" ? (parseDurationMs(text) ?? 0) : 0;
  if (typeof text !== "string" || ms === 0)
    throw refused(
      `expected a duration above 0, such as 90m, 24h or 7d; got ${JSON.stringify(text).slice(0, 40)}`,
    );
  if (cache === undefined)
    throw refused(
      "this service has no cache of answers; leave the header out, or ask the operator to set cache in its configuration",
    );
  return text;
}

function refused(message: string): PerigeeError {
  return new PerigeeError("usage", `${CACHE_HEADER}: ${message}`, { details: { param: CACHE_HEADER } });
}
