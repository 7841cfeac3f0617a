/**
 * Erases deleted data from the disk: once a minute the store removes what was deleted from all its files.
 *
 *   resting (a minute) -> scrubbing -> resting
 */
import type { Clock, Timer } from "../clock.ts";
import type { Store } from "../store/store.ts";

const EVERY_MS = 60_000;

export interface ScrubbingOptions {
  readonly clock: Clock;
  readonly store: Pick<Store, "scrub">;
  /** Called for unexpected failures; the next try is a minute later. */
  readonly onFault?: ((error: unknown) => void) | undefined;
}

/** Starts; `close` waits for a scrub under way. */
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
