/**
 * The lots of each task that are not final: when the last of them is final, the task ends.
 *
 *   own lots         listed when they open, removed when they are final
 *   a shared lot     not listed: a task has only one, which counts its open items
 */
import type { Lot, TaskLines } from "./lot.ts";

/** One for a store. */
export class LastLots {
  /** Own lots by task. */
  readonly #open = new Map<string, Set<string>>();

  /** Lines of a task wait in a lot. */
  opened({ record }: Lot, { taskId }: TaskLines): void {
    if (record.taskId === undefined) return;
    const lots = this.#open.get(taskId) ?? new Set();
    lots.add(record.id);
    this.#open.set(taskId, lots);
  }

  /** The task's lines in this lot are final: whether those in all others are. `now` finds open lots. */
  isLast({ record }: Lot, { taskId }: TaskLines, now: (id: string) => Lot | undefined): boolean {
    const lots = this.#open.get(taskId);
    if (record.taskId === undefined) return lots === undefined;
    lots?.delete(record.id);
    if (lots === undefined || lots.size > 0) return false;
    this.#open.delete(taskId);
    if (record.again === undefined) return true;
    const shared = now(record.again.lotId);
    const first = shared?.record.taskId === undefined ? shared?.memberAt(record.again.firstLine) : undefined;
    return first === undefined || first.open === 0;
  }
}
