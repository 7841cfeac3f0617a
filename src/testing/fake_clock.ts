/**
 * A clock whose time moves only when a test says so.
 *
 * Timers fire in order of their due time, and in order of creation within one instant. After each one the clock waits
 * for a whole turn of Node's event loop, which runs every microtask there is and all that those make: chains of promises
 * of any length have settled before the next timer fires, so the same seed results in the same order of events.
 *
 * Limits: what waits for something real (a file, a socket, a thread) is not seen; a simulation has none of that.
 * A chain of promises that never ends keeps the turn from ending.
 */
import { scheduler } from "node:timers/promises";
import { type Clock, type Moment, sleepOn, type Timer } from "../clock.ts";
import { createRandom } from "./random.ts";

/** Where chance and the calendar of a `FakeClock` begin. */
export interface FakeClockOptions {
  /** Seed of `random`, a whole number; default 1. */
  readonly seed?: number;
  /** Unix time at the start in milliseconds; default 2026-01-01T00:00:00Z. */
  readonly wallMs?: number;
}

interface ArmedTimer {
  readonly dueMs: number;
  readonly callback: () => void;
  isCancelled: boolean;
}

/** `Clock` with virtual time, which starts at 0. */
export class FakeClock implements Clock {
  #nowMs = 0;
  #wallStartMs: number;
  /** How often the machine was booted, and when it was for the last time. */
  #boots = 1;
  #bootedAtMs = 0;
  /** By due time, then by creation. Cancelled ones are skipped at their time. */
  readonly #timers: ArmedTimer[] = [];
  readonly #random: () => number;
  /** Callbacks of `soon` that have not run. */
  #soonCalls = 0;
  #isRunning = false;

  constructor(options: FakeClockOptions = {}) {
    this.#wallStartMs = options.wallMs ?? 1_767_225_600_000;
    this.#random = createRandom(options.seed ?? 1);
  }

  nowMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return Math.trunc(this.#wallStartMs + this.#nowMs);
  }

  moment(): Moment {
    const bootId = `00000000-0000-4000-8000-${String(this.#boots).padStart(12, "0")}`;
    return { wallMs: this.wallMs(), bootId, sinceBootMs: this.#nowMs - this.#bootedAtMs };
  }

  timer(delayMs: number, callback: () => void): Timer {
    const timer: ArmedTimer = {
      dueMs: this.#nowMs + Math.max(0, delayMs),
      callback,
      isCancelled: false,
    };
    this.#timers.splice(this.#indexAfter(timer.dueMs), 0, timer);
    return {
      cancel: () => {
        timer.isCancelled = true;
      },
    };
  }

  /** Called back within the instant; the clock moves on only after it. Works while nobody moves the clock, too. */
  soon(callback: () => void): void {
    this.#soonCalls += 1;
    void scheduler.yield().then(() => {
      this.#soonCalls -= 1;
      callback();
    });
  }

  sleep(delayMs: number, options?: { readonly signal?: AbortSignal | undefined }): Promise<void> {
    return sleepOn(this, delayMs, options?.signal);
  }

  random(): number {
    return this.#random();
  }

  /** Timers that are armed and not cancelled. */
  get pendingTimers(): number {
    return this.#timers.filter((timer) => !timer.isCancelled).length;
  }

  /** Moves only the wall clock, either way, as a time server or a user does. */
  jumpWall(ms: number): void {
    this.#wallStartMs += ms;
  }

  /** The machine is booted again within this instant; the test itself ends the processes that die with it. */
  reboot(): void {
    this.#boots += 1;
    this.#bootedAtMs = this.#nowMs;
  }

  /** Lets everything that can go on without time passing do so. */
  async settle(): Promise<void> {
    do await scheduler.yield();
    while (this.#soonCalls > 0);
  }

  /** Moves time on by `ms`, firing what falls due on the way, each at its own time. */
  async advance(ms: number): Promise<void> {
    await this.#run(async () => {
      const untilMs = this.#nowMs + Math.max(0, ms);
      await this.settle();
      while (await this.#fireNext(untilMs)) {
        // Each firing may arm more timers before `untilMs`.
      }
      this.#nowMs = untilMs;
    });
  }

  /** Moves time to the next timer and fires it; false when none is armed. */
  advanceToNextTimer(): Promise<boolean> {
    return this.#run(async () => {
      await this.settle();
      return this.#fireNext(Number.POSITIVE_INFINITY);
    });
  }

  /** Fires timers until none is armed. Throws when time would pass `limitMs` from now (default 30 days). */
  async runUntilIdle(limitMs: number = 30 * 86_400_000): Promise<void> {
    await this.#run(async () => {
      const untilMs = this.#nowMs + limitMs;
      await this.settle();
      while (await this.#fireNext(untilMs)) {
        // Continues until nothing is due within the limit.
      }
      if (this.pendingTimers > 0) throw new Error(`timers are still armed after ${limitMs} ms`);
    });
  }

  /**
   * Fires timers until `promise` settles, and returns its value or throws its reason. Throws when no timer is armed and
   * the promise still waits: nothing would ever wake it.
   */
  async runUntilSettled<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const settled = promise.finally(() => {
      isSettled = true;
    });
    settled.catch(() => undefined);
    await this.#run(async () => {
      await this.settle();
      while (!isSettled && (await this.#fireNext(Number.POSITIVE_INFINITY))) {
        // Each firing may be the one that it waited for.
      }
      if (!isSettled) throw new Error(`stuck at ${this.#nowMs} ms: a promise waits and no timer is armed`);
    });
    return settled;
  }

  async #fireNext(untilMs: number): Promise<boolean> {
    let next = this.#timers[0];
    while (next?.isCancelled) {
      this.#timers.shift();
      next = this.#timers[0];
    }
    if (next === undefined || next.dueMs > untilMs) return false;
    this.#timers.shift();
    this.#nowMs = next.dueMs;
    next.callback();
    await this.settle();
    return true;
  }

  async #run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isRunning) throw new Error("this clock is being moved already");
    this.#isRunning = true;
    try {
      return await work();
    } finally {
      this.#isRunning = false;
    }
  }

  #indexAfter(dueMs: number): number {
    let low = 0;
    let high = this.#timers.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#timers[middle]?.dueMs ?? 0) <= dueMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
