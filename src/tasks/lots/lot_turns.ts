/**
 * Decides which lots run: a lot waits while 32 lots of its project with no later deadline run. Those that only wait for batches count for
 * nothing: a batch may take hours, and lots behind it would begin too late for theirs.
 *
 *   waiting --its turn, its deadline, no sla, or its task was cancelled--> running -> over
 *
 * Until the start is over nothing runs: what runs of the first lots do would delay that the others are read.
 *
 * Nothing tells when a run is left to batches, so it is looked for every second while a lot waits.
 */
import type { Lot } from "./lot.ts";

const RUNNING_MAX = 32;
const LOOK_MS = 1_000;

/** One for a store. Times are monotonic. */
export class LotTurns {
  /** Sealed lots that have not run yet. */
  readonly #waiting = new Set<Lot>();
  /** Those that run, by project. */
  readonly #running = new Map<string, Set<Lot>>();
  #isStarted = false;

  /** From now on lots run. */
  start(): void {
    this.#isStarted = true;
  }

  add(lot: Lot): void {
    this.#waiting.add(lot);
  }

  isWaiting(lot: Lot): boolean {
    return this.#waiting.has(lot);
  }

  /** Removes the lots that run from now on; `nextMs`: when to ask again even if none ends, Infinity for never. */
  take(nowMs: number): { readonly lots: readonly Lot[]; readonly nextMs: number } {
    const lots: Lot[] = [];
    let nextMs = Number.POSITIVE_INFINITY;
    if (!this.#isStarted) return { lots, nextMs };
    const busy = new Map<string, Lot[]>();
    for (const lot of [...this.#waiting].sort((a, b) => a.deadlineMs - b.deadlineMs)) {
      const { deadlineMs } = lot;
      const { project } = lot.record;
      const running = busy.get(project) ?? this.#busyOf(project);
      busy.set(project, running);
      const isDue = lot.record.slaMinutes === null || deadlineMs <= nowMs || isCancelled(lot);
      const earlier = running.filter((other) => other.deadlineMs <= deadlineMs).length;
      if (!isDue && earlier >= RUNNING_MAX) {
        nextMs = Math.min(nextMs, deadlineMs, nowMs + LOOK_MS);
        continue;
      }
      this.#waiting.delete(lot);
      this.#running.set(project, (this.#running.get(project) ?? new Set()).add(lot));
      running.push(lot);
      lots.push(lot);
    }
    return { lots, nextMs };
  }

  /** A running lot has ended, which allows another. */
  ended(lot: Lot): void {
    const running = this.#running.get(lot.record.project);
    running?.delete(lot);
    if (running?.size === 0) this.#running.delete(lot.record.project);
  }

  /** Lots of a project that run and send. */
  #busyOf(project: string): Lot[] {
    return [...(this.#running.get(project) ?? [])].filter((lot) => lot.run?.isLeftToBatches !== true);
  }
}

/** Whether the whole lot is cancelled; in a shared lot only single lines are. */
export function isCancelled({ record, members }: Lot): boolean {
  return record.taskId !== undefined && members.some((member) => member.isCancelled);
}
