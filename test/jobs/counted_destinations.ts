/**
 * Slots of destinations without timers of their own, for clocks of tests.
 */
import type { Destinations } from "../../src/jobs/destinations.ts";

/** A count and a list for each destination. */
export class CountedDestinations implements Destinations {
  readonly #lists = new Map<string, (() => void)[]>();
  readonly held = new Map<string, number>();

  ask(name: string, concurrency: number, onSlot: (release: () => void) => void): void {
    const waiting = this.#lists.get(name) ?? [];
    this.#lists.set(name, waiting);
    let isReleased = false;
    const release = (): void => {
      if (isReleased) throw new Error("a slot was given back twice");
      isReleased = true;
      this.held.set(name, (this.held.get(name) ?? 0) - 1);
      this.#next(name, concurrency);
    };
    waiting.push(() => onSlot(release));
    queueMicrotask(() => this.#next(name, concurrency));
  }

  #next(name: string, concurrency: number): void {
    const held = this.held.get(name) ?? 0;
    if (held >= concurrency) return;
    const give = this.#lists.get(name)?.shift();
    if (give === undefined) return;
    this.held.set(name, held + 1);
    give();
  }
}
