/**
 * Work that is waited for only so long; it goes on all the same.
 */
import type { Clock } from "../clock.ts";

/** What it resolved with, or undefined when it takes longer. Rejects as the work does until then. */
export async function inTime<T>(
  clock: Pick<Clock, "timer">,
  delayMs: number,
  work: Promise<T>,
): Promise<T | undefined> {
  let cancel = (): void => undefined;
  const late = new Promise<undefined>((resolve) => {
    const timer = clock.timer(delayMs, () => resolve(undefined));
    cancel = () => timer.cancel();
  });
  return Promise.race([work, late]).finally(cancel);
}
