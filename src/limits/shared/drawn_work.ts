/**
 * What waits at this process for limits that several share, and what the others have: its side of `shared_work.ts`.
 *
 *   silent --units or places are drawn--> reported --nothing waits, and others believe so--> reported once more --> silent
 */
import type { OtherWork, WorkAsk, WorkStanding } from "./shared_work.ts";

/** For how long the last answer counts: work of others may be done meanwhile. */
const KEPT_MS = 12_000;

export class DrawnWork {
  readonly #holder: string;
  readonly #standing: () => WorkStanding;
  #others: readonly OtherWork[] = [];
  #heardMs = Number.NEGATIVE_INFINITY;
  /** Whether others believe that something waits here. */
  #isBelieved = false;

  /** `holder`: this process, unique for its life. `standing`: what waits here. */
  constructor(holder: string, standing: () => WorkStanding) {
    this.#holder = holder;
    this.#standing = standing;
  }

  /** What to report; undefined for nothing. `isDrawing`: units or places of the same limits are drawn as well. */
  ask(isDrawing: boolean): WorkAsk | undefined {
    if (!isDrawing && !this.#isBelieved) return undefined;
    const standing = this.#standing();
    return isDrawing || standing.weight === 0 ? { holder: this.#holder, ...standing } : undefined;
  }

  /** Takes the answer to an ask. */
  answered(nowMs: number, { weight }: WorkAsk, others: readonly OtherWork[]): void {
    this.#isBelieved = weight > 0;
    this.#others = others;
    this.#heardMs = nowMs;
  }

  /** What waits at the other processes, as far as known. */
  others(nowMs: number): readonly OtherWork[] {
    return nowMs - this.#heardMs <= KEPT_MS ? this.#others : [];
  }
}
