/**
 * Virtual time for a simulation of millions of events. Callbacks of `at` run without promises; after those of the clock, whose callers
 * use promises, a whole turn of Node's event loop passes, as with `FakeClock`.
 */
import { scheduler } from "node:timers/promises";
import { type Clock, sleepOn, type Timer } from "../../src/clock.ts";
import { Heap } from "../../src/queue/heap.ts";
import { createRandom } from "../../src/testing/random.ts";

interface Event {
  readonly callback: () => void;
  isCancelled: boolean;
}

const EPOCH_MS = 1_767_225_600_000;

export class VirtualTime {
  #nowMs = 0;
  #events = 0;
  readonly #heap = new Heap<Event>();
  /** Whether promises may have something to do before time goes on. */
  #hasPromises = false;
  readonly random: () => number;
  readonly clock: Clock;

  constructor(seed: number) {
    this.random = createRandom(seed);
    this.clock = {
      nowMs: () => this.#nowMs,
      wallMs: () => Math.trunc(EPOCH_MS + this.#nowMs),
      moment: () => ({ wallMs: EPOCH_MS + this.#nowMs, bootId: undefined, sinceBootMs: 0 }),
      timer: (delayMs, callback) => this.#timer(delayMs, callback),
      soon: (callback) => void this.#timer(0, callback),
      sleep: (delayMs, options) => sleepOn(this.clock, delayMs, options?.signal),
      random: this.random,
    };
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** How many events have happened. */
  get events(): number {
    return this.#events;
  }

  /** Calls back after `delayMs`, in the order of the calls within one moment. */
  after(delayMs: number, callback: () => void): void {
    this.#add(delayMs, callback);
  }

  /** Resolves a promise: everything that waits for it runs before time goes on. */
  settle<T>(resolve: (value: T) => void, value: T): void {
    this.#hasPromises = true;
    resolve(value);
  }

  /** A wait with this mean, as that of independent arrivals. */
  drawn(meanMs: number): number {
    return -meanMs * Math.log(1 - this.random());
  }

  async runUntil(untilMs: number): Promise<void> {
    await scheduler.yield();
    for (;;) {
      const next = this.#heap.peek();
      if (next === undefined || next.key > untilMs) break;
      this.#heap.pop();
      const event = next.value;
      if (event.isCancelled) continue;
      this.#nowMs = next.key;
      this.#events += 1;
      event.callback();
      if (!this.#hasPromises) continue;
      this.#hasPromises = false;
      await scheduler.yield();
    }
    this.#nowMs = untilMs;
  }

  #timer(delayMs: number, callback: () => void): Timer {
    const event = this.#add(delayMs, () => {
      this.#hasPromises = true;
      callback();
    });
    return {
      cancel: () => {
        event.isCancelled = true;
      },
    };
  }

  #add(delayMs: number, callback: () => void): Event {
    const event = { callback, isCancelled: false };
    this.#heap.push(this.#nowMs + Math.max(0, delayMs), event);
    return event;
  }
}
