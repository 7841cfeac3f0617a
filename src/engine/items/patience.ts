/**
 * How long attempts are waited for, and which are not worth sending: what is learnt of latencies (queue/latency.ts), for
 * the items of an engine.
 *
 * An attempt has until its item's deadline, or the time-out of its lane. It is given up before only when it hangs, once for
 * an item: should the item itself be what takes long, its next attempt has all the time there is. Under at-most-once
 * delivery no attempt is given up, because it would not be repeated.
 */
import type { Clock } from "../../clock.ts";
import type { AttemptResult, AttemptTimes, Patience } from "../../dispatch/dispatcher.ts";
import type { Latencies, LatencyKey } from "../../queue/latency.ts";
import type { ItemCall } from "./item_call.ts";

export interface ItemPatienceOptions {
  readonly clock: Clock;
  readonly isAtMostOnce: boolean;
  readonly latencies: Latencies;
}

/** Under which what a cheaper offer's answers take is learnt. */
export function offerLatencies({ model, maxOutputTokens }: LatencyKey, kind: string): LatencyKey {
  return { model: `${model} (${kind})`, maxOutputTokens };
}

/** One for an engine. */
export class ItemPatience implements Patience<ItemCall> {
  readonly #options: ItemPatienceOptions;
  readonly #latencies: Latencies;

  constructor(options: ItemPatienceOptions) {
    this.#options = options;
    this.#latencies = options.latencies;
  }

  patienceMs(call: ItemCall, attempt: AttemptTimes): number {
    const { sentMs, elapsedMs, leftMs, freshMs, timeouts } = attempt;
    if (timeouts > 0 || this.#options.isAtMostOnce || call.offer !== undefined) return leftMs;
    return this.#latencies.patienceMs(call, { sentMs, nowMs: sentMs + elapsedMs, leftMs, freshMs });
  }

  /** Whether an answer to a request that leaves now would miss the deadline with more than 90 % probability. */
  isTooLate(call: ItemCall): boolean {
    const { deadlineMs } = call;
    if (deadlineMs === Number.POSITIVE_INFINITY || call.provider.answerLocally !== undefined) return false;
    const nowMs = this.#options.clock.nowMs();
    return this.#latencies.isTooLate(call, deadlineMs - nowMs, nowMs);
  }

  /** What this share of answers take at most, in milliseconds; undefined while too few are known. */
  quantileMs(key: LatencyKey, share: number): number | undefined {
    return this.#latencies.quantileMs(key, share);
  }

  /** Something took so long that is no attempt of an item, such as a batch. */
  ended(key: LatencyKey, tookMs: number): void {
    const nowMs = this.#options.clock.nowMs();
    this.#latencies.answered(key, nowMs - tookMs, nowMs);
  }

  /** Milliseconds after its sending when an attempt had failed: one that timed out, from when on it certainly hung. */
  failedAfterMs(call: ItemCall, { code, latencyMs }: AttemptResult): number {
    return code === "timeout" ? Math.min(latencyMs, this.#latencies.certainHangMs(call)) : latencyMs;
  }

  /**
   * An attempt has ended. Returns whether that says anything of its lane: an attempt that its item's deadline has cut does so
   * only when it had taken far longer than answers do.
   */
  learn(call: ItemCall, { class: kind, code, latencyMs }: AttemptResult): boolean {
    const { provider, deadlineMs } = call;
    if (provider.answerLocally !== undefined) return true;
    const nowMs = this.#options.clock.nowMs();
    const sentMs = nowMs - latencyMs;
    const key = call.offer === undefined ? call : offerLatencies(call, call.offer.kind);
    if (kind === "success" || kind === "unfit") this.#latencies.answered(key, sentMs, nowMs);
    if (code !== "timeout") return code !== "cancelled"; // cut here
    if (call.offer !== undefined) {
      this.#latencies.unanswered(key, sentMs, nowMs);
      return false;
    }
    const isTimedOut = latencyMs >= call.attemptMsMax;
    const isCut = !isTimedOut && nowMs >= deadlineMs;
    if (isTimedOut || isCut) this.#latencies.unanswered(call, sentMs, nowMs);
    return !isCut || this.#latencies.isHanging(call, latencyMs);
  }
}
