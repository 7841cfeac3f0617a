/**
 * One batch at work: its durable record, the way to its provider, and what wakes it.
 */
import type { Clock } from "../../clock.ts";
import type { BatchFailure, BatchPayload, BatchWire } from "../../providers/batches/batch_wire.ts";
import { parseModelId } from "../../work/request.ts";
import type { EngineStorage } from "../journal/storage.ts";
import type { BatchCalls, LinesFile } from "./batch_calls.ts";
import { BATCHES, type BatchRecord, storedBatch } from "./batch_record.ts";

/** How batches are polled and searched for. */
export interface BatchTimes {
  readonly pollMsMin: number;
  readonly pollMsMax: number;
  /** How long a batch is searched for that may have been created, before it is created again. */
  readonly adoptMs: number;
}

/** What a batch is worked on with. */
export interface BatchWay {
  readonly wire: BatchWire;
  readonly calls: BatchCalls;
  readonly storage: Pick<EngineStorage, "clock" | "disk" | "store" | "room" | "notice">;
  readonly times: BatchTimes;
  readonly lines: LinesFile;
}

/** Why a batch waits: its account, its limits, or an outage. */
export interface BatchTrouble {
  readonly is: BatchFailure["is"];
  readonly message: string;
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

/** One for a batch, while its task is at work. */
export class KeptBatch {
  readonly way: BatchWay;
  record: BatchRecord;
  trouble: BatchTrouble | undefined;
  /** Whether its provider was asked for it in this process, and has not said that it has ended. */
  isAsked = false;
  readonly #leaving = new AbortController();
  readonly #onTrouble: () => void;
  #nap: (() => void) | undefined;
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
    this.#leaving.abort(new BatchLeft());
  }

  /** Ends a wait that is under way. */
  wake(): void {
    this.#nap?.();
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
      this.#nap = () => end(resolve);
    });
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

  #retryMs({ is, retryAfterMs }: Omit<BatchFailure, "ok">): number {
    if (is === "account") return ACCOUNT_RETRY_MS;
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
