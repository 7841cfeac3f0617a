/**
 * Many calls under one signal: it is listened to once, because adding and removing a listener takes as long as the signal has
 * listeners, and one signal may end thousands of calls.
 */

export class SharedSignals {
  readonly #calls = new Map<AbortSignal, { readonly ends: Set<() => void>; readonly listener: () => void }>();

  /** Calls `end` when the signal is aborted, unless it is forgotten before. */
  follow(signal: AbortSignal, end: () => void): void {
    const known = this.#calls.get(signal);
    if (known !== undefined) {
      known.ends.add(end);
      return;
    }
    const ends = new Set([end]);
    const listener = (): void => {
      this.#calls.delete(signal);
      for (const one of [...ends]) one();
    };
    this.#calls.set(signal, { ends, listener });
    signal.addEventListener("abort", listener, { once: true });
  }

  forget(signal: AbortSignal, end: () => void): void {
    const known = this.#calls.get(signal);
    if (known === undefined) return;
    known.ends.delete(end);
    if (known.ends.size > 0) return;
    this.#calls.delete(signal);
    signal.removeEventListener("abort", known.listener);
  }
}
