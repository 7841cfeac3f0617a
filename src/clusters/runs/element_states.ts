/**
 * The states of the elements of a fan-out: two bytes for each, in any order of their ends.
 */
import type { ExecutionStatus } from "../../satellites/sdk/execution.ts";
import type { StoredFanOut } from "./run_record.ts";

const STATUSES: readonly ExecutionStatus[] = ["pending", "completed", "failed", "cancelled", "expired"];
const RETRIES_MAX = 255;

/** For one fan-out in this process; `stored` is what a checkpoint keeps of it. */
export class ElementStates {
  readonly #statuses: Uint8Array;
  readonly #retries: Uint8Array;
  /** Of elements below `#endedBelow`. */
  readonly #counts: Record<ExecutionStatus, number>;
  #retriesBelow: number;
  #endedBelow: number;
  #ended = 0;

  /** As it was stored, or of a new one. */
  constructor({ total, endedBelow, counts, retries }: StoredFanOut) {
    this.#statuses = new Uint8Array(total);
    this.#retries = new Uint8Array(total);
    this.#counts = { ...counts, pending: 0 };
    this.#retriesBelow = retries;
    this.#endedBelow = endedBelow;
    this.#ended = endedBelow;
  }

  static empty(total: number): StoredFanOut {
    const counts = { pending: total, completed: 0, failed: 0, cancelled: 0, expired: 0 };
    return { total, endedBelow: 0, counts, retries: 0 };
  }

  /** Elements that have ended, in any order. */
  get ended(): number {
    return this.#ended;
  }

  end(index: number, status: Exclude<ExecutionStatus, "pending">, retries: number): void {
    this.#statuses[index] = STATUSES.indexOf(status);
    this.#retries[index] = Math.min(RETRIES_MAX, retries);
    this.#ended += 1;
    for (; this.#statuses[this.#endedBelow]; this.#endedBelow += 1) {
      const name = STATUSES[this.#statuses[this.#endedBelow] ?? 0] ?? "pending";
      this.#counts[name] += 1;
      this.#retriesBelow += this.#retries[this.#endedBelow] ?? 0;
    }
  }

  /** To go on from, by the next process. */
  stored(): StoredFanOut {
    const total = this.#statuses.length;
    const counts = { ...this.#counts, pending: total - this.#endedBelow };
    return { total, endedBelow: this.#endedBelow, counts, retries: this.#retriesBelow };
  }

  /** Of all elements, for those who read it. */
  shown(): Pick<StoredFanOut, "total" | "counts" | "retries"> {
    const counts = { ...this.#counts };
    let retries = this.#retriesBelow;
    for (let index = this.#endedBelow; index < this.#statuses.length; index += 1) {
      counts[STATUSES[this.#statuses[index] ?? 0] ?? "pending"] += 1;
      retries += this.#retries[index] ?? 0;
    }
    return { total: this.#statuses.length, counts, retries };
  }
}
