/**
 * How an engine ends what it has in flight before another process continues its work. `stopSending` of the engine was called before.
 *
 *   requests whose intents are staged   sent, and waited for
 *   no place is taken in any lane       nothing leaves any more, also of batches
 *   nothing in flight                   drained
 *
 * A request waits for its retry without a place: the next process makes it.
 */
import type { EngineCore } from "./core.ts";

/** How often it is looked at. */
const LOOK_MS = 50;

/** Resolves when nothing is in flight, or when the signal fires. Never rejects. */
export async function drained(
  { sending, storage }: Pick<EngineCore, "sending" | "storage">,
  signal: AbortSignal,
): Promise<void> {
  const { lanes, leased } = sending;
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!signal.aborted && !isSo()) await storage.clock.sleep(LOOK_MS, { signal }).catch(() => undefined); // it fired
  };
  await until(() => Array.from(lanes.all()).every(({ limits }) => limits.inFlight === 0));
  if (!signal.aborted) leased?.end();
  await until(() => (leased?.inFlight ?? 0) === 0);
}
