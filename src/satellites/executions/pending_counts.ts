/**
 * How many executions are pending, of each project and of all, and how many may be.
 *
 *   reserved (being stored) -> counted until it is final
 *
 * What was accepted stays accepted: a bound that is lowered refuses new ones alone.
 */
import { PerigeeError } from "../../errors.ts";

/** Fewer may be pending by then. */
const RETRY_AFTER_SECONDS = 30;

/** Room is reserved before the store is asked, and given back when it refuses, or at the end. */
export class PendingCounts {
  readonly #projectMax: number;
  readonly #max: number;
  readonly #byProject = new Map<string, number>();
  #all = 0;

  constructor({ projectPending, pending }: { readonly projectPending: number; readonly pending: number }) {
    this.#projectMax = projectPending;
    this.#max = pending;
  }

  get all(): number {
    return this.#all;
  }

  /** Counts one more. Throws `too_many` (`details.retryAfterSeconds`) when there is no room for it. */
  reserve(project: string): void {
    const own = this.#byProject.get(project) ?? 0;
    const [count, whose] = own >= this.#projectMax ? [own, "of your project"] : [this.#all, "of the service"];
    if (own >= this.#projectMax || this.#all >= this.#max)
      throw new PerigeeError(
        "too_many",
        `${count} executions ${whose} are pending, which is as many as may be`,
        {
          details: { retryAfterSeconds: RETRY_AFTER_SECONDS },
        },
      );
    this.count(project, 1);
  }

  count(project: string, change: number): void {
    this.#all += change;
    const count = (this.#byProject.get(project) ?? 0) + change;
    if (count > 0) this.#byProject.set(project, count);
    else this.#byProject.delete(project);
  }
}
