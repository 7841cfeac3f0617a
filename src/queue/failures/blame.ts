/**
 * Blame by comparison: whether a failed attempt speaks against its item or against the lane.
 *
 *   first failure -> suspected --an answer to a comparable request of another item--> proven: further failures count
 *                    suspected --no such answer-------------------------------------> the lane's: they cost nothing
 *   any --the lane goes down--> suspected again
 *
 * An answer compares when it arrived after the item's first failed attempt had ended, and its request was not sent long before
 * that attempt (250 ms, a burst): requests that were under way when a provider began to refuse new ones are
 * still answered, for minutes perhaps, and prove nothing about those it refuses. What the lane's own detection of outages takes
 * for one voids all comparisons, also with requests from before it, and failures that are proven to be their item's do not feed that detection.
 * So a single item on its lane, or one every half a minute, survives an outage of any length, and an item that fails
 * while others are answered ends after its attempts.
 *
 * Only the answers that can still decide something are kept: of two, the later one to a later request says more. In a lane
 * that answers in order that is one. Hot path: 20 ns an answer.
 */

/** An item's failures in a row on one lane. */
export interface FailureSeries {
  /** When its first failed attempt was sent, and when it ended; monotonic. */
  readonly sentMs: number;
  readonly endedMs: number;
}

/** The same of attempts that may have hung. */
export interface ItemFailures extends FailureSeries {
  /** From when on the first one certainly hung; `endedMs` where it did not. */
  readonly hungMs: number;
  /** Whether it was given up without an answer. */
  readonly isHang: boolean;
}

/** Refusals of an item's key or model in a row. */
export interface Refusals extends FailureSeries {
  /** The answers with which they are compared: those of the key, or of the model. */
  readonly blame: Blame;
  /** Refusals before these that answers have proven to be the item's own. */
  readonly proofs: number;
}

/** Requests of one burst may compare although one was sent before the other. */
const BURST_MS = 250;
/** Answers kept at most; the oldest are forgotten first. */
const KEPT_MAX = 4_096;

interface Answer {
  atMs: number;
  sentMs: number;
}

/** One for a lane. */
export class Blame {
  /** By `atMs` upwards, by `sentMs` downwards. */
  #answers: Answer[] = [];
  /** Answers to requests that were sent before say nothing. */
  #fromMs = Number.NEGATIVE_INFINITY;

  /** A request that was sent at `sentMs` was answered: with a success, or with a refusal of its own content. */
  answered(sentMs: number, nowMs: number): void {
    if (sentMs < this.#fromMs) return;
    const answers = this.#answers;
    let last = answers.at(-1);
    while (last !== undefined && last.sentMs <= sentMs) {
      if (answers.length === 1) {
        last.atMs = nowMs;
        last.sentMs = sentMs;
        return;
      }
      answers.pop();
      last = answers.at(-1);
    }
    answers.push({ atMs: nowMs, sentMs });
    if (answers.length > KEPT_MAX) answers.shift();
  }

  /**
   * Whether a failure that ends now counts against an item whose failures began with `series`. `isStrict`: the answer must be
   * to a request that was sent after the item's first failure had ended.
   */
  isProven(series: FailureSeries, isStrict: boolean = false): boolean {
    const fromMs = isStrict ? series.endedMs : series.sentMs - BURST_MS;
    for (const { atMs, sentMs } of this.#answers) {
      if (atMs < series.endedMs) continue;
      return sentMs >= fromMs; // the first one after the failure has the latest request
    }
    return false;
  }

  /**
   * The lane is down, and a request that was sent at `sentMs` has failed: what was answered before says nothing about what fails
   * now, and neither does an answer to an earlier request, which may have been under way when the lane went down.
   */
  void(sentMs: number): void {
    this.#answers = [];
    this.#fromMs = Math.max(this.#fromMs, sentMs);
  }
}
