/**
 * Which lots of a task are not final: the last of them to be so ends the task.
 *
 *   own lots              named when they open, forgotten when they are final
 *   a lot that is shared  not named: a task has one, and in it a count of what is open
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
