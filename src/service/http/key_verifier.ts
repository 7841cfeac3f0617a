/**
 * Who may call: from the `Authorization` header of a request to the caller of its key.
 *
 * `/v0` and the OpenAI paths (area `v0`) take only `Bearer <key>`, satellites (area `v1`) only the bare key
 * (interface 5). A key in a URL is never read.
 */
import type { KeyStore } from "../../store/keys/key_store.ts";
import type { StoredKey } from "../../store/keys/key_table.ts";
import { type Caller, SCOPES } from "./caller.ts";

/** Which form of the header a path takes. */
export type KeyArea = "v0" | "v1";

/** Synchronous and cheap: called for every request, before its body is read. */
export interface KeyVerifier {
  /**
   * The caller of a key that is known, not revoked and not expired. Undefined in every other case: no header, several,
   * another form, or an invalid key. A caller of this answers all of them alike (`unauthenticated`).
   */
  verify(authorization: string | undefined, area: KeyArea): Caller | undefined;
  /**
   * Whether a key is still accepted and has the beta flag now: asked before each attempt of what it submitted. Absent: it
   * stays what it was.
   */
  isBetaKey?(keyId: string): boolean;
}

/** Bearer of RFC 6750, whose scheme may be written in any case. */
const HEADER: Readonly<Record<KeyArea, RegExp>> = { v0: /^Bearer ([^ ]+)$/i, v1: /^([^ ]+)$/ };

/** The verifier on the keys of a data folder. What the header holds is never kept, and never part of an error. */
export function createKeyVerifier(keys: Pick<KeyStore, "accept" | "active">): KeyVerifier {
  /** A key that was changed is another object. */
  const callers = new WeakMap<StoredKey, Caller>();
  return {
    verify: (authorization, area) => {
      const [, text] = HEADER[area].exec(authorization ?? "") ?? [];
      const key = text === undefined ? undefined : keys.accept(text);
      if (key === undefined) return undefined;
      const known = callers.get(key);
      if (known !== undefined) return known;
      const caller = callerOf(key);
      callers.set(key, caller);
      return caller;
    },
    isBetaKey: (keyId) => keys.active(keyId)?.isBeta === true,
  };
}

function callerOf({ id, project, scopes, isBeta }: StoredKey): Caller {
  return { keyId: id, project, scopes: new Set(SCOPES.filter((scope) => scopes.includes(scope))), isBeta };
}

/** Whether one more request of a key is allowed; the figures are those of rate-limit headers. */
export interface RequestAllowance {
  /** False: the request is refused (429), and `retryAfterMs` says when the next one is taken. */
  readonly isAllowed: boolean;
  readonly limitPerMinute: number;
  /** Further requests that would be taken at once. */
  readonly remaining: number;
  /** Until the whole allowance is available again. */
  readonly resetMs: number;
  /** 0 when allowed. */
  readonly retryAfterMs: number;
}

/** How many requests a minute each key may make. */
export interface RequestLimits {
  /** Counts one request. */
  take(keyId: string): RequestAllowance;
}
