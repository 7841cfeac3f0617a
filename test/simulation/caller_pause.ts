/**
 * How long the caller of a run that stopped waits before the next call: longer each time that the run has sent nothing since.
 *
 *   stopped -> 20 s -> stopped, nothing sent -> 40 s -> ... -> 15 min at most
 *   any     -> stopped, something sent       -> 20 s
 */
import type { Observer } from "./observer.ts";
import type { Served } from "./provider.ts";
import type { RunBook } from "./run_book.ts";

const PAUSE_MS = 20_000;
/** The longest wait that a provider of the simulation asks for. */
const PAUSE_MS_MAX = 900_000;

export class CallerPause {
  readonly #idle = new Map<RunBook, { readonly sent: number; readonly times: number }>();

  /** In milliseconds; adds it to what the observer leaves out of a run's time. `served` are all requests of all runs. */
  next(book: RunBook, served: readonly Served[], observer: Observer): number {
    const sent = served.filter(({ line }) => line.run === book.run.index).length; // refused connections included
    const last = this.#idle.get(book);
    const times = last?.sent === sent ? last.times + 1 : 0;
    this.#idle.set(book, { sent, times });
    const pauseMs = Math.min(PAUSE_MS_MAX, PAUSE_MS * 2 ** times);
    observer.pausedMs += pauseMs;
    return pauseMs;
  }
}
