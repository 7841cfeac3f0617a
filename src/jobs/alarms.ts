/**
 * Many moments on one timer: what is due is called, the earliest first.
 *
 *   set -> due -> called
 *    \-> cancelled
 *
 * Limits: so many a turn of the event loop, so that 100,000 deadlines at one moment do not hold up what else there is.
 */
import type { Clock, Timer } from "../clock.ts";
import { Heap } from "../queue/heap.ts";

const CALLS_A_TURN = 200;

class Alarm implements Timer {
  readonly atMs: number;
  readonly call: () => void;
  isCancelled = false;
  readonly #onCancel: () => void;

  constructor(atMs: number, call: () => void, onCancel: () => void) {
    this.atMs = atMs;
    this.call = call;
    this.#onCancel = onCancel;
  }

  cancel(): void {
    if (this.isCancelled) return;
    this.isCancelled = true;
    this.#onCancel();
  }
}

/** Does not keep a process from ending. */
export class Alarms {
  readonly #clock: Clock;
  #alarms = new Heap<Alarm>();
  #cancelled = 0;
  #timer: Timer | undefined;
  #dueMs = Number.POSITIVE_INFINITY;
  readonly #onCancel = (): void => {
    this.#cancelled += 1;
    this.#sweep();
  };

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls once at `atMs` of the monotonic clock or later, never synchronously; `call` must not throw. */
  set(atMs: number, call: () => void): Timer {
    const alarm = new Alarm(atMs, call, this.#onCancel);
    this.#alarms.push(atMs, alarm);
    this.#arm();
    return alarm;
  }

  /** Calls nothing any more. */
  close(): void {
    this.#timer?.cancel();
    this.#alarms = new Heap();
    this.#dueMs = Number.NEGATIVE_INFINITY;
  }

  #arm(): void {
    const next = this.#alarms.peek();
    if (next === undefined || next.key >= this.#dueMs) return;
    this.#timer?.cancel();
    this.#dueMs = next.key;
    const ring = (): void => {
      this.#dueMs = Number.POSITIVE_INFINITY;
      this.#ring();
    };
    this.#timer = this.#clock.timer(next.key - this.#clock.nowMs(), ring, { keepsAlive: false });
  }

  #ring(): void {
    const nowMs = this.#clock.nowMs();
    for (let calls = 0; calls < CALLS_A_TURN; ) {
      const next = this.#alarms.peek();
      if (next === undefined || next.key > nowMs) break;
      this.#alarms.pop();
      if (next.value.isCancelled) {
        this.#cancelled -= 1;
        continue;
      }
      next.value.isCancelled = true; // cancelling it later counts nothing
      calls += 1;
      next.value.call();
    }
    this.#arm();
  }

  /** Cancelled ones go when they are the most: an alarm may be set for a month. */
  #sweep(): void {
    if (this.#cancelled < 1_000 || this.#cancelled * 2 < this.#alarms.size) return;
    this.#alarms.keep(({ isCancelled }) => !isCancelled);
    this.#cancelled = 0;
  }
}
