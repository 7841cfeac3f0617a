/**
 * Erasure that reaches the disk: once a minute the store is asked to hold nothing in any file of what was deleted.
 *
 *   resting (a minute) -> scrubbing -> resting
 */
import type { Clock, Timer } from "../clock.ts";
import type { Store } from "../store/store.ts";

const EVERY_MS = 60_000;

export interface ScrubbingOptions {
  readonly clock: Clock;
  readonly store: Pick<Store, "scrub">;
  /** Told of what ought not to happen; a minute later it is tried again. */
  readonly onFault?: ((error: unknown) => void) | undefined;
}

/** Begins; `close` waits for what is under way. */
export function startScrubbing({ clock, store, onFault }: ScrubbingOptions): { close(): Promise<void> } {
  let isClosed = false;
  let timer: Timer;
  let scrub: Promise<void> = Promise.resolve();
  const rest = (): void => {
    if (!isClosed) timer = clock.timer(EVERY_MS, begin, { keepsAlive: false });
  };
  const begin = (): void => {
    scrub = store
      .scrub()
      .catch((error: unknown) => onFault?.(error))
      .then(rest);
  };
  rest();
  return {
    close: async () => {
      isClosed = true;
      timer.cancel();
      await scrub;
    },
  };
}
