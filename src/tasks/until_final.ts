/**
 * A caller's wait for items without sla.
 */
import type { Lot } from "./lot.ts";
import type { TaskRecord } from "./task_record.ts";

/** Resolves when the task's objects in these lots are final, or nothing can be done for them at present. */
export async function untilFinal(
  task: TaskRecord,
  lots: readonly Lot[],
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const lot of lots) {
    const member = lot.memberOf(task);
    if (member === undefined || member.open === 0) continue;
    await new Promise<void>((resolve, reject) => {
      const onAbort = (): void => reject(signal?.reason);
      const done = (): void => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      };
      member.whenFinal = done;
      void lot.waited.then(done);
      if (signal?.aborted) onAbort();
      else signal?.addEventListener("abort", onAbort, { once: true });
    });
  }
}
