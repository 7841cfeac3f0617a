/**
 * Decides which lots run: a lot waits while 32 lots of its project with no later deadline run.
 *
 *   waiting --its turn, its deadline, no sla, or its task was cancelled--> running -> over
 */
import type { Lot } from "./lot.ts";

const RUNNING_MAX = 32;

/** One for a store. Times are monotonic. */
export class LotTurns {
  /** Sealed lots that have not run yet. */
  readonly #waiting = new Set<Lot>();
  /** Deadlines of the lots that run, by project. */
  readonly #running = new Map<string, number[]>();

  add(lot: Lot): void {
    this.#waiting.add(lot);
  }

  isWaiting(lot: Lot): boolean {
    return this.#waiting.has(lot);
  }

  /** Removes the lots that run from now on; `nextMs`: when the next one is due even if none ends, Infinity for none. */
  take(nowMs: number): { readonly lots: readonly Lot[]; readonly nextMs: number } {
    const lots: Lot[] = [];
    let nextMs = Number.POSITIVE_INFINITY;
    for (const lot of [...this.#waiting].sort((a, b) => a.deadlineMs - b.deadlineMs)) {
      const { deadlineMs } = lot;
      const { project } = lot.record;
      const running = this.#running.get(project) ?? [];
      const isDue = lot.record.slaMinutes === null || deadlineMs <= nowMs || isCancelled(lot);
      const earlier = running.filter((other) => other <= deadlineMs).length;
      if (!isDue && earlier >= RUNNING_MAX) {
        nextMs = Math.min(nextMs, deadlineMs);
        continue;
      }
      this.#waiting.delete(lot);
      this.#running.set(project, [...running, deadlineMs]);
      lots.push(lot);
    }
    return { lots, nextMs };
  }

  /** A running lot has ended, which allows another. */
  ended(project: string, deadlineMs: number): void {
    const running = this.#running.get(project) ?? [];
    running.splice(running.indexOf(deadlineMs), 1);
    if (running.length === 0) this.#running.delete(project);
  }
}

/** Whether the whole lot is cancelled; in a shared lot only single lines are. */
export function isCancelled({ record, members }: Lot): boolean {
  return record.taskId !== undefined && members.some((member) => member.isCancelled);
}
