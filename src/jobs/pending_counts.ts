/**
 * How many jobs of a kind are pending, of each group (such as a project) and of all, and how many may be.
 *
 *   reserved (being stored) -> counted until it is final
 *
 * What was accepted stays accepted: a lowered bound refuses only new ones.
 */
import { PerigeeError } from "../errors.ts";
import type { JobLimits } from "./job.ts";

/** Fewer may be pending by then. */
const RETRY_AFTER_SECONDS = 30;

/** A place is reserved before the job is stored, and given back when that fails, or at the end. */
export class PendingCounts {
  readonly #groupMax: number;
  readonly #max: number;
  readonly #byGroup = new Map<string, number>();
  #all = 0;

  constructor({ groupPendingMax, pendingMax }: Pick<JobLimits, "groupPendingMax" | "pendingMax">) {
    this.#groupMax = groupPendingMax;
    this.#max = pendingMax;
  }

  get all(): number {
    return this.#all;
  }

  hasPlace(group: string): boolean {
    return this.#all < this.#max && (this.#byGroup.get(group) ?? 0) < this.#groupMax;
  }

  /** Counts one more. Throws `too_many` (`details.retryAfterSeconds`) if all places are taken. */
  reserve(group: string): void {
    if (!this.hasPlace(group)) {
      const own = this.#byGroup.get(group) ?? 0;
      const [count, whose] = own >= this.#groupMax ? [own, "of your project"] : [this.#all, "of the service"];
      throw new PerigeeError(
        "too_many",
        `${count} executions ${whose} are pending, which is as many as may be`,
        {
          details: { retryAfterSeconds: RETRY_AFTER_SECONDS },
        },
      );
    }
    this.count(group, 1);
  }

  count(group: string, change: number): void {
    this.#all += change;
    const count = (this.#byGroup.get(group) ?? 0) + change;
    if (count > 0) this.#byGroup.set(group, count);
    else this.#byGroup.delete(group);
  }
}
