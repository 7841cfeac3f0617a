/**
 * Waits for work for a limited time. The work itself continues.
 */
import type { Clock } from "../clock.ts";

/** Resolves as the work does, or with undefined after `delayMs`. Rejects if the work rejects before that. */
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
