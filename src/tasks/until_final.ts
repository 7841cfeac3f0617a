/**
 * A caller's wait for items without sla. It ends with the last of them, or with
 *
 *   nothing left that could be sent    30 s after the last answer of the lot, sooner where nobody but the operator can help
 *   an answer that takes long          10 min, as long as one request may take by default
 *
 * The items go on all the same: the caller polls the task.
 */
import type { Clock } from "../clock.ts";
import type { Lot } from "./lot.ts";
import type { TaskRecord } from "./task_record.ts";

/** How long a lot of items without sla waits for what passes by itself before its callers are answered. */
export const HELD_WAIT_MS = 30_000;
const ANSWER_WAIT_MS = 600_000;

/** Resolves when the task's objects in these lots are final, or its caller should not wait for them any longer. */
export async function untilFinal(
  task: TaskRecord,
  lots: readonly Lot[],
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal | undefined },
): Promise<void> {
  const untilMs = clock.nowMs() + ANSWER_WAIT_MS;
  for (const lot of lots) {
    const member = lot.memberOf(task);
    if (member === undefined || member.open === 0) continue;
    await new Promise<void>((resolve, reject) => {
      const onAbort = (): void => {
        timer.cancel();
        reject(signal?.reason);
      };
      const done = (): void => {
        timer.cancel();
        signal?.removeEventListener("abort", onAbort);
        resolve();
      };
      const timer = clock.timer(Math.max(0, untilMs - clock.nowMs()), done);
      member.whenFinal = done;
      void lot.waited.then(done);
      if (signal?.aborted) onAbort();
      else signal?.addEventListener("abort", onAbort, { once: true });
    });
  }
}
