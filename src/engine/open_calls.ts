/**
 * Calls of an engine's callers, which its end refuses or waits for.
 *
 *   open -> closing     new calls are refused, those under way may end
 *
 * What a call that was cut off by the end throws is the same as what a refused one throws, whichever part was closed first under it.
 */
import type { Clock } from "../clock.ts";
import { hasCode, PerigeeError } from "../errors.ts";

/** A full disk may keep a call waiting for longer. */
const WAIT_MS = 5_000;

/** What every call throws from `close` on. */
export function engineClosed(cause?: unknown): PerigeeError {
  const message = "the engine is closed; open another one on the same data folder to go on";
  return new PerigeeError("closed", message, cause === undefined ? {} : { cause });
}

/** One for an engine. */
export class OpenCalls {
  readonly #clock: Clock;
  readonly #underWay = new Set<Promise<unknown>>();
  #isClosing = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Throws `closed`. */
  assertOpen(): void {
    if (this.#isClosing) throw engineClosed();
  }

  /** Refuses calls from now on. */
  close(): void {
    this.#isClosing = true;
  }

  /** As the call ends; `closedError` is what it throws where the end of the engine cuts it off. */
  async ended<T>(call: Promise<T>, closedError: (cause: unknown) => Error = engineClosed): Promise<T> {
    this.#underWay.add(call);
    try {
      return await call;
    } catch (error) {
      throw this.#isClosing && hasCode(error, "closed") ? closedError(error) : error;
    } finally {
      this.#underWay.delete(call);
    }
  }

  /** Resolves when those under way have ended, or have had 5 s. */
  settled(): Promise<void> {
    return this.within(this.#allSettled());
  }

  /** Resolves with the work, or after 5 s. */
  async within(work: Promise<void>): Promise<void> {
    const over = new AbortController();
    const timeout = this.#clock.sleep(WAIT_MS, { signal: over.signal }).catch(() => undefined);
    await Promise.race([work, timeout]);
    over.abort();
  }

  async #allSettled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
  }
}
