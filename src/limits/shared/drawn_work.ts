/**
 * What waits at this process for limits that several share, and what the others have: its side of `shared_work.ts`.
 *
 *   silent --units or places are drawn, or 4 s with work--> reported --nothing is left, and others believe that something is--> reported --> silent
 */
import { isNoWork, type OtherWork, type WorkAsk, type WorkStanding } from "./shared_work.ts";

/** How often what waits is reported while nothing is drawn, as of a lane that has all of it with batches. */
export const REPORT_MS = 4_000;
/** For how long the last answer counts: work of others may be done meanwhile. */
const KEPT_MS = 12_000;

export class DrawnWork {
  readonly #holder: string;
  readonly #standing: () => WorkStanding;
  #others: readonly OtherWork[] = [];
  #heardMs = Number.NEGATIVE_INFINITY;
  /** Whether others believe that something is left here. */
  #isBelieved = false;

  /** `holder`: this process, unique for its life. `standing`: what waits here. */
  constructor(holder: string, standing: () => WorkStanding) {
    this.#holder = holder;
    this.#standing = standing;
  }

  /** What to report; undefined for nothing. `isDrawing`: units or places of the same limits are drawn as well. */
  ask(nowMs: number, isDrawing: boolean): WorkAsk | undefined {
    const standing = this.#standing();
    const isDue = isNoWork(standing) ? this.#isBelieved : nowMs - this.#heardMs >= REPORT_MS;
    return isDrawing || isDue ? { holder: this.#holder, ...standing } : undefined;
  }

  /** Takes the answer to an ask. */
  answered(nowMs: number, ask: WorkAsk, others: readonly OtherWork[]): void {
    this.#isBelieved = !isNoWork(ask);
    this.#others = others;
    this.#heardMs = nowMs;
  }

  /** What waits at the other processes, as far as known. */
  others(nowMs: number): readonly OtherWork[] {
    return nowMs - this.#heardMs <= KEPT_MS ? this.#others : [];
  }
}
