/**
 * Who may call: a hook before every route, ahead of the body.
 *
 * A route names the scope it needs in its `config`; without one it is open. No key, a malformed one, one of the other
 * area's shape, an unknown, revoked or expired one: one answer, 401. Every key has its requests a minute, shown in
 * `x-ratelimit-*`; callers without a key have fewer, by address.
 */
import { PerigeeError } from "../../errors.ts";
import type { Caller, Scope } from "./caller.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "./fastify.ts";
import type { KeyVerifier, RequestAllowance, RequestLimits } from "./key_verifier.ts";
import { addressName } from "./request_limits.ts";

/** How many requests a minute are answered. */
export interface AuthLimits {
  readonly perKey: RequestLimits;
  readonly perAddress: RequestLimits;
}

/** Throws `unauthenticated`, `forbidden`, and `too_many` with `retryAfterSeconds`, into the request. */
export function registerAuth(app: FastifyInstance, verifier: KeyVerifier, limits: AuthLimits): void {
  app.decorateRequest("caller", undefined as unknown as Caller); // set by the hook where a route has a scope
  app.addHook("onRequest", (request, reply, done) => {
    const { scope, area } = request.routeOptions.config;
    if (scope === undefined && !request.is404) {
      done();
      return;
    }
    const caller = verifier.verify(request.headers.authorization, area ?? "v0");
    if (caller === undefined) done(refusal(request, limits));
    else done(admit(request, reply, caller, limits) ?? beyond(caller, scope));
  });
}

function admit(
  request: FastifyRequest,
  reply: FastifyReply,
  caller: Caller,
  { perKey }: AuthLimits,
): PerigeeError | undefined {
  request.caller = caller;
  const taken = perKey.take(caller.keyId);
  reply.header("x-ratelimit-limit-requests", String(taken.limitPerMinute));
  reply.header("x-ratelimit-remaining-requests", String(taken.remaining));
  reply.header("x-ratelimit-reset-requests", `${Math.ceil(taken.resetMs)}ms`);
  return taken.isAllowed ? undefined : tooMany("this key", taken);
}

/** One text for every route, key and id: an answer that depended on them would reveal something. */
const UNAUTHENTICATED =
  'a valid API key is needed: send "Authorization: Bearer <key>"; for satellites, executions, clusters and secrets "Authorization: <key>"';

/** An unknown address stays 404, as long as it is not asked for too often. */
function refusal(request: FastifyRequest, { perAddress }: AuthLimits): PerigeeError | undefined {
  const taken = perAddress.take(addressName(request.ip));
  if (!taken.isAllowed) return tooMany("requests without a valid key", taken);
  if (request.is404) return undefined;
  return new PerigeeError("unauthenticated", UNAUTHENTICATED);
}

function beyond({ scopes }: Caller, scope: Scope | undefined): PerigeeError | undefined {
  if (scope === undefined || scopes.has(scope)) return undefined;
  return new PerigeeError("forbidden", `the key does not have the scope ${scope}`);
}

function tooMany(who: string, { limitPerMinute, retryAfterMs }: RequestAllowance): PerigeeError {
  return new PerigeeError("too_many", `more than ${limitPerMinute} requests a minute for ${who}`, {
    details: { retryAfterSeconds: Math.max(1, Math.ceil(retryAfterMs / 1_000)) },
  });
}
