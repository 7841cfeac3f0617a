/**
 * One batch at work: its durable record, the way to its provider, and what wakes it.
 *
 *   waiting (until the next poll, or a retry) --its time, the end of its run, a hint `pollMsMin` after the last poll--> at work -> waiting
 *   any -> left
 */
import type { Clock, Timer } from "../../clock.ts";
import type { BatchFailure, BatchPayload, RemoteWire } from "../../providers/batches/batch_wire.ts";
import { parseModelId } from "../../work/request.ts";
import type { BatchTally } from "../items/batch_tally.ts";
import type { EngineStorage } from "../journal/storage.ts";
import type { BatchCalls, LinesFile } from "./batch_calls.ts";
import { BATCHES, type BatchReason, type BatchRecord, storedBatch, waitingReason } from "./batch_record.ts";

/** How batches are polled and searched for. */
export interface BatchTimes {
  readonly pollMsMin: number;
  readonly pollMsMax: number;
  /** How long a batch is searched for that may have been created, before it is created again. */
  readonly adoptMs: number;
}

/** What a batch is worked on with. */
export interface BatchWay {
  readonly wire: RemoteWire;
  readonly calls: BatchCalls;
  readonly storage: Pick<EngineStorage, "clock" | "disk" | "store" | "room" | "notice">;
  readonly times: BatchTimes;
  readonly lines: LinesFile;
  readonly tally: BatchTally;
}

/** Why a batch waits: its account, its limits, or an outage. */
export interface BatchTrouble extends BatchReason {
  readonly status: number;
  /** Monotonic. */
  readonly sinceMs: number;
  /** Monotonic: when it is tried again. */
  readonly nextMs: number;
}

/** Waits after failures, doubled from the first to the last. */
const RETRY_MS_MIN = 2_000;
const RETRY_MS_MAX = 60_000;
const ACCOUNT_RETRY_MS = 60_000;
/** Where the key has made the batch: one refusal may be chance. */
const ACCEPTED_RETRIES_MS = [500, 1_000, 2_000] as const;

/** One for a batch, while its task is at work. */
export class KeptBatch {
  readonly way: BatchWay;
  record: BatchRecord;
  trouble: BatchTrouble | undefined;
  /** Whether its provider was asked for it in this process, and has not said that it has ended. */
  isAsked = false;
  readonly #leaving = new AbortController();
  readonly #onTrouble: () => void;
  /** The wait that is under way, and when it ends (monotonic). */
  #nap: { readonly end: () => void; readonly atMs: number } | undefined;
  /** Monotonic: when its provider was asked for it last. */
  #polledMs = Number.NEGATIVE_INFINITY;
  /** Of a hint that came too soon after the last poll. */
  #hinted: (Timer & { readonly atMs: number }) | undefined;
  #failures = 0;

  /** `onTrouble` is called when what makes it wait has changed. */
  constructor(way: BatchWay, record: BatchRecord, onTrouble: () => void) {
    this.way = way;
    this.record = record;
    this.#onTrouble = onTrouble;
  }

  get clock(): Clock {
    return this.way.storage.clock;
  }

  get provider(): string {
    return this.way.wire.settings.name;
  }

  /** Monotonic: when the provider is asked for it, or tried, again; undefined while that is under way. */
  get nextTryMs(): number | undefined {
    return this.#nap === undefined ? undefined : Math.min(this.#nap.atMs, this.#hinted?.atMs ?? Infinity);
  }

  /** Why it waits; undefined while nothing is wrong. */
  get reason(): BatchReason | undefined {
    if (this.trouble === undefined) return waitingReason(this.record);
    const { is, message } = this.trouble;
    return { is, message };
  }

  /** Whether its provider has accepted the key: batches are asked for with no other than the one that made them. */
  get wasAccepted(): boolean {
    return this.record.batchId !== undefined;
  }

  /** Aborts when nobody works on it any more in this process. */
  get left(): AbortSignal {
    return this.#leaving.signal;
  }

  get payload(): BatchPayload {
    const { tag, model, endpoint, items, bytes } = this.record;
    return { tag, model: parseModelId(model)?.name ?? model, endpoint, items, bytes };
  }

  /** Nobody works on it any more in this process; its record stays. */
  leave(): void {
    this.#hinted?.cancel();
    this.#leaving.abort(new BatchLeft());
  }

  /** Ends a wait that is under way. */
  wake(): void {
    this.#nap?.end();
  }

  /** Its provider is asked for it now. */
  polls(): void {
    this.#polledMs = this.clock.nowMs();
    this.#hinted?.cancel();
    this.#hinted = undefined;
  }

  /**
   * It may have ended: its provider is asked for it as soon as `pollMsMin` have passed since the last time. Returns whether it is polled
   * at all; while its account or its provider makes it wait, that wait decides.
   */
  hint(): boolean {
    const { state } = this.record;
    if (state !== "running" && state !== "cancelling") return false;
    if (this.#hinted !== undefined || this.trouble !== undefined) return true;
    const leftMs = this.#polledMs + this.way.times.pollMsMin - this.clock.nowMs();
    const isAsking = this.#nap === undefined; // its answer may be from before the hint
    const waitMs = isAsking ? this.way.times.pollMsMin : Math.max(0, leftMs);
    const timer = this.clock.timer(
      waitMs,
      () => {
        this.#hinted = undefined;
        const isPolled = this.record.state === "running" || this.record.state === "cancelling";
        if (isPolled && this.trouble === undefined) this.wake();
      },
      { keepsAlive: false },
    );
    this.#hinted = { atMs: this.clock.nowMs() + waitMs, cancel: () => timer.cancel() };
    return true;
  }

  /** Resolves when the record is durable with these changes. */
  put(changes: Partial<BatchRecord>): Promise<void> {
    return this.restate({ ...this.record, ...changes });
  }

  /** Resolves when the record is durable as it is now, without what it has no more. */
  async restate(record: BatchRecord): Promise<void> {
    await this.#store([{ kind: "put", record: storedBatch(record) }]);
    this.record = record;
  }

  /** Its record is gone, durably. */
  remove(): Promise<void> {
    return this.#store([{ kind: "delete", collection: BATCHES, id: this.record.tag }]);
  }

  /** Resolves after so many milliseconds, or when it is woken; rejects when it is left. */
  async wait(ms: number): Promise<void> {
    this.left.throwIfAborted();
    const atMs = this.clock.nowMs() + ms;
    await new Promise<void>((resolve, reject) => {
      const end = (settle: () => void): void => {
        timer.cancel();
        this.left.removeEventListener("abort", onLeft);
        this.#nap = undefined;
        settle();
      };
      const onLeft = (): void => end(() => reject(this.left.reason));
      const timer = this.clock.timer(ms, () => end(resolve));
      this.left.addEventListener("abort", onLeft, { once: true });
      this.#nap = { atMs, end: () => end(resolve) };
    });
  }

  /** Resolves after so many milliseconds, or when it is woken; the record says why it waits. */
  async waitFor({ waitMs, why }: { readonly waitMs: number; readonly why: BatchReason }): Promise<void> {
    if (this.record.failed?.message !== why.message) await this.put({ failed: why });
    await this.wait(waitMs);
  }

  /** It was created, or polled and has not ended. */
  asked(): void {
    if (this.isAsked) return;
    this.isAsked = true;
    this.#onTrouble();
  }

  /** The provider has answered: nothing makes it wait. */
  healed(): void {
    this.#failures = 0;
    if (this.trouble === undefined) return;
    this.trouble = undefined;
    this.#onTrouble();
  }

  /** Waits as long as a failure asks for, longer each time. */
  async waitAfter(failure: Omit<BatchFailure, "ok">): Promise<void> {
    const ms = this.#retryMs(failure);
    this.#failures += 1;
    const nowMs = this.clock.nowMs();
    const { is, message, status } = failure;
    this.trouble = { is, message, status, sinceMs: this.trouble?.sinceMs ?? nowMs, nextMs: nowMs + ms };
    this.#onTrouble();
    await this.wait(ms);
  }

  #retryMs({ is, isDenied, retryAfterMs }: Omit<BatchFailure, "ok">): number {
    const isChance = isDenied === true && this.wasAccepted;
    if (is === "account")
      return (isChance ? ACCEPTED_RETRIES_MS[this.#failures] : undefined) ?? ACCOUNT_RETRY_MS;
    const ownMs = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(this.#failures, 10));
    return Math.max(retryAfterMs ?? 0, ownMs * (0.75 + 0.5 * this.clock.random()));
  }

  #store(changes: Parameters<BatchWay["storage"]["store"]["change"]>[0]): Promise<void> {
    const { room, store } = this.way.storage;
    return room.waitFor(() => store.change(changes), { signal: this.left });
  }
}

/** Why work on a batch has ended before the batch did. */
class BatchLeft extends Error {
  constructor() {
    super("its task has left");
    this.name = "BatchLeft";
  }
}
