/**
 * Waiting for the end of what an execution has begun elsewhere: a task, or an execution of its own.
 *
 *   listens -> looks -> final
 *                  \-> pending -> notified of its end: final
 *                             \-> aborted: cancelled, but for a process that closes, after which it continues
 */
import { unlessAborted } from "../../engine/abort.ts";
import { hasCode } from "../../errors.ts";

/** What is waited for. */
export interface Awaited<View> {
  /** Calls `tell` with the view at its end, until the returned function is called. */
  readonly listen: (tell: (view: View | Promise<View>) => void) => () => void;
  /** Its view; undefined while it is pending. */
  readonly look: () => Promise<View | undefined>;
  /** Called when the signal aborts; what it throws is ignored, because it may be removed by then. */
  readonly cancel: () => Promise<unknown>;
}

/** Resolves with the final view; rejects with the signal's reason. `onWait` is called when it is not final yet. */
export async function untilFinal<View>(
  { listen, look, cancel }: Awaited<View>,
  signal: AbortSignal,
  onWait: () => void = () => undefined,
): Promise<View> {
  let stop = (): void => undefined;
  const told = new Promise<View>((resolve) => {
    stop = listen(resolve);
  });
  told.catch(() => undefined); // nothing may ever wait for it
  try {
    const now = await look(); // after listening: it may have ended before
    if (now !== undefined) return now;
    signal.throwIfAborted();
    onWait();
    return await unlessAborted(told, signal);
  } catch (error) {
    if (signal.aborted && !hasCode(signal.reason, "closed")) await cancel().catch(() => undefined);
    throw error;
  } finally {
    stop();
  }
}
