/**
 * A caller's wait for items without sla. It ends when all of them are final, or earlier:
 *
 *   nothing left can be sent     30 s after the last answer of the lot, sooner if only the operator can resolve it
 *   an answer takes long         after 10 min, as long as one request may take by default
 *
 * The items continue in both cases, and the caller polls the task.
 */
import type { Clock } from "../../clock.ts";
import { ATTEMPT_MS_MAX } from "../../queue/lanes.ts";
import type { Lot } from "./lot.ts";
import type { TaskRecord } from "./task_record.ts";

/** How long a lot of items without sla waits for a hold that may end by itself, before its callers get a response. */
export const HELD_WAIT_MS = 30_000;

/**
 * Resolves when the task's objects in these lots are final, or when its caller should stop waiting. Rejects with the reason of
 * `signal`.
 */
export async function untilFinal(
  task: TaskRecord,
  lots: readonly Lot[],
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal | undefined },
): Promise<void> {
  const untilMs = clock.nowMs() + ATTEMPT_MS_MAX;
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
