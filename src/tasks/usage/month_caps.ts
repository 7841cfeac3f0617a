/**
 * Caps of projects on what providers bill in one UTC month, for the budgets of their runs.
 *
 *   first read --counts what the month has spent--> runs take from it --the month ends--> nothing is spent
 *
 * Items that a cap held continue when a month begins. Limit: after a restart, what open runs took in earlier months counts in this one:
 * too little is sent then, never too much.
 */
import type { Clock, Timer } from "../../clock.ts";
import { Cap } from "../../price/budget.ts";

export interface MonthCapsOptions {
  readonly clock: Clock;
  /** The cap of a project in USD; undefined: no cap. */
  readonly capUsd: (project: string) => number | undefined;
  /** The noted spending of this month, in USD. */
  readonly spentUsd: (project: string) => Promise<number>;
}

/** One for a store. */
export class MonthCaps {
  readonly #options: MonthCapsOptions;
  readonly #caps = new Map<string, Promise<Cap>>();
  readonly #listeners = new Set<() => void>();
  #timer: Timer | undefined;

  constructor(options: MonthCapsOptions) {
    this.#options = options;
  }

  /** The same cap for all runs of a project; undefined for a project without one. */
  async of(project: string): Promise<Cap | undefined> {
    const { capUsd, clock } = this.#options;
    const usd = capUsd(project);
    if (usd === undefined) return undefined;
    this.#timer ??= clock.timer(untilNextMonthMs(clock.wallMs()), () => void this.#begin(), {
      keepsAlive: false,
    });
    const cap = this.#caps.get(project) ?? this.#load(project, usd);
    this.#caps.set(project, cap);
    cap.catch(() => this.#caps.delete(project));
    return cap;
  }

  /** Calls back when items held by caps may continue. */
  onMonth(listener: () => void): void {
    this.#listeners.add(listener);
  }

  close(): void {
    this.#timer?.cancel();
  }

  async #load(project: string, usd: number): Promise<Cap> {
    const spentUsd = await this.#options.spentUsd(project);
    const cap = new Cap(usd, `the month of ${project}`);
    cap.count(spentUsd);
    return cap;
  }

  async #begin(): Promise<void> {
    const { clock } = this.#options;
    this.#timer = clock.timer(untilNextMonthMs(clock.wallMs()), () => void this.#begin(), {
      keepsAlive: false,
    });
    for (const cap of await Promise.allSettled(this.#caps.values()))
      if (cap.status === "fulfilled") cap.value.forget(cap.value.spentUsd);
    for (const listener of this.#listeners) listener();
  }
}

/** At least a second, so that a clock that is set back a little does not repeat it. */
function untilNextMonthMs(wallMs: number): number {
  const now = new Date(wallMs);
  return Math.max(1_000, Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1) - wallMs);
}
