/**
 * The port for time and chance: everything that waits, measures or draws lots takes a `Clock`.
 *
 * Three kinds of time: `nowMs` is monotonic and drives limits, timeouts and backoff (a wall clock that
 * jumps an hour neither frees a burst nor freezes a run); `wallMs` is Unix time and is only stored,
 * shown, or compared with what was stored; a `moment` is what a process records of now for the next one, which has
 * another `nowMs` and perhaps a wall clock that was put right in between.
 *
 * Limits: Node's timers overflow above 2^31-1 ms and then fire at once, so longer waits are sliced.
 */
import { readFileSync } from "node:fs";

/** Now, as a later process can measure it; `work/moment.ts` computes how long ago it was. */
export interface Moment {
  /** Unix time in whole milliseconds. */
  readonly wallMs: number;
  /** A UUID that differs after every boot of the machine; undefined where the system does not report it. */
  readonly bootId: string | undefined;
  /** Milliseconds since the machine was booted, time asleep left out or not; all its processes count the same. */
  readonly sinceBootMs: number;
}

/** A pending callback. `cancel` may be called twice and after the callback ran. */
export interface Timer {
  cancel(): void;
}

/**
 * Port. All methods may be called at any time and concurrently; a clock has no close.
 * Callbacks of timers run in order of their due time, and in order of creation within one instant.
 */
export interface Clock {
  /** Milliseconds on a monotonic scale with an arbitrary origin; may have a fraction; never goes back. */
  nowMs(): number;
  /** Unix time in whole milliseconds; may jump either way. */
  wallMs(): number;
  /** Now, for the record. */
  moment(): Moment;
  /**
   * Calls back once after at least `delayMs` (any length, negative counts as 0), never synchronously. With `keepsAlive`
   * false it does not keep a process from ending that has nothing else to do. Default true.
   */
  timer(
    delayMs: number,
    callback: () => void,
    options?: { readonly keepsAlive?: boolean | undefined },
  ): Timer;
  /** Calls back once when the events of this turn have been handled, before any timer that is not yet due. */
  soon(callback: () => void): void;
  /** Resolves after at least `delayMs`; rejects with `signal.reason` as soon as the signal aborts. */
  sleep(delayMs: number, options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  /** A number in [0, 1), for jitter. Not for secrets or ids. */
  random(): number;
}

/** The longest delay that Node's timers keep: 2^31-1 ms, about 24.8 days. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Builds `sleep` on `timer`, the same for every clock. */
export function sleepOn(clock: Pick<Clock, "timer">, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = (): void => {
      timer.cancel();
      reject(signal?.reason);
    };
    const timer = clock.timer(delayMs, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** The clock of this machine. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  moment: () => ({ wallMs: Date.now(), bootId: bootId(), sinceBootMs: sinceBootMs() }),
  timer: (delayMs, callback, options) => new SlicedTimer(delayMs, callback, options?.keepsAlive ?? true),
  soon: (callback) => void setImmediate(callback),
  sleep: (delayMs, options) => sleepOn(systemClock, delayMs, options?.signal),
  random: () => Math.random(),
};

class SlicedTimer implements Timer {
  readonly #keepsAlive: boolean;
  #handle: NodeJS.Timeout;

  constructor(delayMs: number, callback: () => void, keepsAlive: boolean) {
    this.#keepsAlive = keepsAlive;
    this.#handle = this.#arm(Math.max(0, delayMs), callback);
  }

  cancel(): void {
    clearTimeout(this.#handle);
  }

  #arm(remainingMs: number, callback: () => void): NodeJS.Timeout {
    const later = (): void => {
      this.#handle = this.#arm(remainingMs - TIMER_MS_MAX, callback);
    };
    const handle =
      remainingMs <= TIMER_MS_MAX ? setTimeout(callback, remainingMs) : setTimeout(later, TIMER_MS_MAX);
    return this.#keepsAlive ? handle : handle.unref();
  }
}

/** Node's high-resolution time is the system's monotonic clock, which starts with the machine. */
function sinceBootMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
}

let knownBootId: string | null | undefined;

/** Only Linux reports it; elsewhere only the two clocks are compared. Read once. */
function bootId(): string | undefined {
  if (knownBootId === undefined) {
    try {
      knownBootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    } catch {
      knownBootId = null;
    }
  }
  return knownBootId ?? undefined;
}
