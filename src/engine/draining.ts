/**
 * How an engine ends what it has in flight before another process continues its work. `stopSending` of the engine was called before.
 *
 *   requests whose intents are staged   sent, and waited for
 *   no place is taken in any lane       nothing leaves any more, also of batches
 *   nothing in flight                   drained
 *
 * A request waits for its retry without a place: the next process makes it.
 */
import { until } from "../polled.ts";
import type { EngineCore } from "./core.ts";

/** Resolves when nothing is in flight, or when the signal fires. Never rejects. */
export async function drained(
  { sending, storage }: Pick<EngineCore, "sending" | "storage">,
  signal: AbortSignal,
): Promise<void> {
  const { lanes, leased } = sending;
  const { clock } = storage;
  await until(clock, () => Array.from(lanes.all()).every(({ limits }) => limits.inFlight === 0), signal);
  if (!signal.aborted) leased?.end();
  await until(clock, () => (leased?.inFlight ?? 0) === 0, signal);
}
