/**
 * Waits for a condition that nothing reports, by checking it every 50 ms.
 */
import type { Clock } from "./clock.ts";

/** Milliseconds between two checks. */
const CHECK_MS = 50;

/** Resolves at once when `isSo` holds already, else after the check that finds it, or when the signal fires. Never rejects. */
export async function until(
  clock: Pick<Clock, "sleep">,
  isSo: () => boolean,
  signal?: AbortSignal,
): Promise<void> {
  while (signal?.aborted !== true && !isSo()) await clock.sleep(CHECK_MS, { signal }).catch(() => undefined); // the signal fired
}
