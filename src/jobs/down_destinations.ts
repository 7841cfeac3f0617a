/**
 * Destinations that nothing reaches: one job at a time looks whether they are back, the others wait for that.
 *
 *   up --an attempt that was never sent--> down: the job waits, a probe is due
 *   down --the probe is due--> probing: the job that has waited longest makes its attempt
 *   probing --never sent--> down: it waits after the others, the next probe is due later
 *   down | probing --any attempt that was sent, with any result--> up: all that wait begin again
 *
 * So a thousand jobs to a host that is down are one request at each wait of the retry layer, and a job that fails
 * by itself keeps the others waiting for one probe at most. Only in memory: after a restart each is probed again.
 */
import type { Alarms } from "./alarms.ts";

/** After a probe whose job has ended: its deadline passed, or it was cancelled. */
const NEXT_PROBE_MS = 30_000;

interface Going {
  readonly destination: { readonly name: string } | undefined;
}

interface Down<T> {
  readonly name: string;
  /** In the order of their probes. */
  readonly waiting: Set<T>;
  probing: T | undefined;
  alarm: { cancel(): void } | undefined;
  /** Attempts in a row that were never sent. */
  failures: number;
  nextMs: number;
}

interface DownOptions<T> {
  readonly alarms: Pick<Alarms, "set">;
  readonly nowMs: () => number;
  /** It may make its attempt; the result must not arrive synchronously. */
  readonly begin: (job: T) => void;
}

/** One for a runner. Jobs without a destination never wait here. */
export class DownDestinations<T extends Going> {
  readonly #options: DownOptions<T>;
  readonly #down = new Map<string, Down<T>>();

  constructor(options: DownOptions<T>) {
    this.#options = options;
  }

  /** Attempts in a row that did not reach its destination; 0 while that is up. */
  failures(job: T): number {
    return this.#of(job)?.failures ?? 0;
  }

  /** When the probe is due that it waits for (monotonic). */
  dueMs(job: T): number | undefined {
    const down = this.#of(job);
    return down?.waiting.has(job) === true ? down.nextMs : undefined;
  }

  /** Whether it has to wait for the probe of another; then it does from now on. */
  holdBack(job: T): boolean {
    const down = this.#of(job);
    if (down === undefined || down.probing === job) return false;
    down.waiting.add(job);
    return true;
  }

  /**
   * Its attempt was never sent: it waits. The next probe is due at `dueMs` (monotonic), unless one is due or under way. False
   * when it has no destination, and waits for itself.
   */
  failed(job: T, dueMs: number): boolean {
    const { destination } = job;
    if (destination === undefined) return false;
    const down = this.#of(job) ?? {
      ...{ name: destination.name, waiting: new Set<T>(), probing: undefined },
      ...{ alarm: undefined, failures: 0, nextMs: 0 },
    };
    this.#down.set(down.name, down);
    down.waiting.add(job);
    const isOther = down.probing !== undefined && down.probing !== job;
    if (isOther || down.alarm !== undefined) return true; // it was under way when another found out
    down.failures += 1;
    down.probing = undefined;
    this.#probeAt(down, dueMs);
    return true;
  }

  /** An attempt of it was sent: all that wait for its destination begin. */
  reached(job: T): void {
    const down = this.#of(job);
    if (down === undefined) return;
    this.#down.delete(down.name);
    down.alarm?.cancel();
    for (const one of down.waiting) this.#options.begin(one);
  }

  /** It has ended: another probes in its place. */
  remove(job: T): void {
    const down = this.#of(job);
    if (down === undefined) return;
    down.waiting.delete(job);
    if (down.probing === job) {
      down.probing = undefined;
      this.#probeAt(down, this.#options.nowMs() + NEXT_PROBE_MS);
    }
    if (down.waiting.size > 0 || down.probing !== undefined) return;
    down.alarm?.cancel();
    this.#down.delete(down.name);
  }

  #of({ destination }: T): Down<T> | undefined {
    return destination === undefined ? undefined : this.#down.get(destination.name);
  }

  #probeAt(down: Down<T>, dueMs: number): void {
    down.nextMs = dueMs;
    down.alarm = this.#options.alarms.set(dueMs, () => {
      down.alarm = undefined;
      const [next] = down.waiting;
      if (next === undefined || this.#down.get(down.name) !== down) return;
      down.waiting.delete(next);
      down.probing = next;
      this.#options.begin(next);
    });
  }
}
