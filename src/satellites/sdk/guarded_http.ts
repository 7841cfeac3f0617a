/**
 * What satellites send requests with: the egress guard, and its failures as those of attempts.
 */
import type { Egress, GuardedRequest, GuardedResult } from "../../egress/egress.ts";
import { SatelliteError } from "./satellite_error.ts";

/** An answer of any status, with the first bytes of its body. */
export type GuardedResponse = Extract<GuardedResult, { ok: true }>;

/** May be used concurrently. */
export interface GuardedHttp {
  readonly egress: Egress;
  /**
   * One request; every status is an answer, also redirects. Throws `SatelliteError`: `permanent` for a destination that
   * is blocked, `not_sent` where nothing left, `ambiguous` where the answer is missing.
   */
  request(request: GuardedRequest): Promise<GuardedResponse>;
}

/** Throws `SatelliteError`: `permanent` for what the guard blocks, `not_sent` before a connection was open, `ambiguous` after it. */
export function createGuardedHttp(egress: Egress): GuardedHttp {
  return {
    egress,
    async request(request) {
      const result = await egress.request(request);
      if (result.ok) return result;
      request.signal?.throwIfAborted();
      const { failure, message } = result;
      if (failure === "blocked_destination") throw new SatelliteError("permanent", failure, message);
      if (failure === "not_sent") throw new SatelliteError("not_sent", "connection_failed", message);
      throw new SatelliteError("ambiguous", failure === "timeout" ? "timeout" : "connection_lost", message);
    },
  };
}
