/**
 * A batch from its creation to its end: polled, and left for realtime when its deadlines ask for it.
 *
 *   running --its end--> ended
 *      |  \--no progress past its 99th percentile, or its window, or its task ends--> cancelling --its end--> ended
 *      |--the switch: what is left would no longer fit behind it--> cancelling
 *      |                     \--not ended when the last moment comes--> rescued: its items are sent beside it, and booked twice
 *      \--the provider does not know it--> gone
 *
 * Polls are 30 s to 5 min apart (`lanes.pollSeconds`), an eighth of the batch's age within these, spread by a tenth, and one at
 * the switch and after a hint (kept_batch.ts). A state that is not known is not an end.
 */
import type { BatchFailure, RemoteBatch } from "../../providers/batches/batch_wire.ts";
import { lostFailure } from "./batch_calls.ts";
import { cancelTwins } from "./batch_search.ts";
import type { KeptBatch } from "./kept_batch.ts";

const AGE_SHARE = 8;
const SPREAD = 0.1;
const CANCELLING_MS = 15_000;
/** Answers in a row that say that the batch does not exist, before that is believed. */
const GONE_MIN = 3;
/** So long after a batch was created again, a list shows the first one, too. */
const TWIN_MS = 600_000;
/** Of a batch's items: progress by less is not stored. */
const NOTED_SHARE = 0.01;
/** After its window, a batch that shows no end is cancelled. */
const WINDOW_MORE_MS = 900_000;

/** When a batch is to be left, as its deadlines and what its lane can do say now. All monotonic; Infinity: never. */
export interface BatchMoments {
  /** From then on it is cancelled, so that what is left can be sent in realtime. */
  readonly switchMs: number;
  /** From then on it cannot be waited for, not even for its cancel. */
  readonly lastMs: number;
  /** Milliseconds without progress after which it counts as stuck; Infinity where no other batch could follow in time. */
  readonly stuckMs: number;
}

/** How the polling ended. */
export type Polled =
  | { readonly is: "ended"; readonly batch: RemoteBatch }
  /** Nobody knows what it did. */
  | { readonly is: "gone" | "rescued" };

/** What polling is told, and tells. */
export interface PollingTerms {
  readonly momentsOf: () => BatchMoments;
  readonly onProgress: (batch: RemoteBatch) => void;
  /** Whether a batch at the provider is another record's. */
  readonly isTaken: (batchId: string) => boolean;
}

/** One for a batch that has an id. */
export class BatchPolling {
  readonly #kept: KeptBatch;
  readonly #momentsOf: () => BatchMoments;
  readonly #onProgress: (batch: RemoteBatch) => void;
  readonly #isTaken: (batchId: string) => boolean;
  /** At first, and where an account has made it wait. */
  #isDue = true;
  #goneInRow = 0;
  #finished = 0;
  #progressMs: number;

  constructor(kept: KeptBatch, { momentsOf, onProgress, isTaken }: PollingTerms) {
    this.#kept = kept;
    this.#momentsOf = momentsOf;
    this.#onProgress = onProgress;
    this.#isTaken = isTaken;
    this.#progressMs = kept.clock.nowMs();
  }

  /** Resolves at the end of the batch; rejects when it is left. */
  async run(): Promise<Polled> {
    const kept = this.#kept;
    for (;;) {
      if (!this.#isDue) await kept.wait(this.#waitMs());
      this.#isDue = false;
      kept.left.throwIfAborted(); // a run that is left is not open, and cancels nothing
      const moments = this.#momentsOf();
      if (this.#isToCancel(moments)) await this.#cancel();
      if (this.#isRescued(moments)) return { is: "rescued" };
      const polled = await this.#poll();
      if (polled !== undefined) return polled;
    }
  }

  async #poll(): Promise<Polled | undefined> {
    const kept = this.#kept;
    const { wire, calls, tally } = kept.way;
    kept.polls();
    const answer = await calls.send(wire.get(kept.record.batchId ?? ""), kept.left);
    kept.left.throwIfAborted();
    const read = answer.ok ? wire.read(answer, "other") : lostFailure(answer);
    tally.polled(kept.provider, !read.ok ? read.is : read.batch.end === undefined ? "running" : "ended");
    if (!read.ok) return this.#failed(read);
    this.#goneInRow = 0;
    kept.healed();
    const { batch } = read;
    const finished = (batch.counts.succeeded ?? 0) + (batch.counts.failed ?? 0);
    if (finished > this.#finished) this.#progressMs = kept.clock.nowMs();
    this.#finished = finished;
    this.#onProgress(batch);
    const isListed = batch.end !== undefined || this.#ageMs() > TWIN_MS;
    if (kept.record.mayHaveTwin === true && isListed) await cancelTwins(kept, this.#isTaken);
    if (batch.end !== undefined) return { is: "ended", batch };
    // The request was lost, or the process that was about to send it was killed.
    if (kept.record.state === "cancelling" && !batch.isCancelling) await this.#askToCancel();
    await this.#note(finished);
    kept.asked();
    return undefined;
  }

  /** For people who look from another process; seldom enough to cost nothing. */
  async #note(finished: number): Promise<void> {
    const { items, finished: noted } = this.#kept.record;
    if (noted === undefined || finished - noted >= Math.max(1, items * NOTED_SHARE))
      await this.#kept.put({ finished });
  }

  async #failed(failure: BatchFailure): Promise<Polled | undefined> {
    this.#goneInRow = failure.is === "gone" ? this.#goneInRow + 1 : 0;
    if (this.#goneInRow >= GONE_MIN && this.#ageMs() > this.#kept.way.times.adoptMs) return { is: "gone" };
    this.#kept.asked();
    if (failure.is !== "account") return undefined;
    await this.#kept.waitAfter(failure);
    this.#isDue = true;
    return undefined;
  }

  #waitMs(): number {
    const { clock, record, way } = this.#kept;
    const { pollMsMin, pollMsMax } = way.times;
    const moments = this.#momentsOf();
    // A moment that passed while the provider was asked is not left to the next poll.
    if (this.#isToCancel(moments) || this.#isRescued(moments)) return 1;
    const { switchMs, lastMs } = moments;
    const isCancelling = record.state === "cancelling";
    const ownMs = isCancelling
      ? Math.min(CANCELLING_MS, pollMsMin)
      : Math.min(pollMsMax, Math.max(pollMsMin, this.#ageMs() / AGE_SHARE));
    const spreadMs = ownMs * (1 - SPREAD + 2 * SPREAD * clock.random());
    const nowMs = clock.nowMs();
    const nextMs = isCancelling || nowMs >= switchMs ? lastMs : switchMs;
    return Math.max(1, nextMs > nowMs ? Math.min(spreadMs, nextMs - nowMs) : spreadMs);
  }

  /** Since it was created, as far as the wall clock tells. */
  #ageMs(): number {
    return Math.max(0, this.#kept.clock.wallMs() - (this.#kept.record.createdWallMs ?? 0));
  }

  #isToCancel({ switchMs, lastMs, stuckMs }: BatchMoments): boolean {
    const { record, way, clock } = this.#kept;
    const nowMs = clock.nowMs();
    if (record.state !== "running" || record.isUnconfirmed === true) return false;
    if (way.wire.cancel(record.batchId ?? "") === undefined) return false;
    if (!way.wire.traits.keepsOnCancel && nowMs < lastMs) return false; // what it has finished would be lost
    return (
      nowMs >= switchMs || this.#isStuck(stuckMs) || this.#ageMs() > way.wire.limits.windowMs + WINDOW_MORE_MS
    );
  }

  /** Nothing of it was finished for as long as slow batches take as a whole. */
  #isStuck(stuckMs: number): boolean {
    const { way, clock } = this.#kept;
    return way.wire.traits.showsProgress && clock.nowMs() - this.#progressMs >= stuckMs;
  }

  #isRescued({ lastMs }: BatchMoments): boolean {
    return this.#kept.clock.nowMs() >= lastMs;
  }

  async #cancel(): Promise<void> {
    if (this.#kept.way.wire.cancel(this.#kept.record.batchId ?? "") === undefined) return;
    await this.#kept.put({ state: "cancelling" });
    await this.#askToCancel();
  }

  /** Takes effect once, however often it is sent. */
  async #askToCancel(): Promise<void> {
    const kept = this.#kept;
    const request = kept.way.wire.cancel(kept.record.batchId ?? "");
    if (request === undefined) return;
    await kept.way.calls.send(request, kept.left);
    kept.left.throwIfAborted();
  }
}
