/**
 * The request that waits because it is larger than a whole limit on tokens.
 *
 *   none --refused--> waits for an empty minute --anything is sent, or a request that fits is refused--> none
 */
import type { Oversized } from "./limits_snapshot.ts";
import type { Quotas } from "./quotas.ts";

/** One for a lane. Times are monotonic. */
export class OversizedRequest {
  #last: (Omit<Oversized, "waitMs"> & { readonly atMs: number }) | undefined;

  /** A request was refused; it may be sent at `atMs`. `oversized`: of the limit that it exceeds. */
  refused(oversized: ReturnType<Quotas["oversized"]>, atMs: number): void {
    this.#last = oversized === undefined ? undefined : { ...oversized, atMs };
  }

  /** Something is sent. */
  sent(): void {
    this.#last = undefined;
  }

  /** What waits; undefined for nothing. */
  at(nowMs: number): Oversized | undefined {
    if (this.#last === undefined) return undefined;
    const { tokens, limit, atMs } = this.#last;
    return { tokens, limit, waitMs: Math.max(0, atMs - nowMs) };
  }
}
