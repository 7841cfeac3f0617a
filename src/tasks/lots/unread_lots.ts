/**
 * Lots that no run has read yet: what admission counts besides what the engine knows of.
 *
 * They are looked for at most ten times a second, as the engine looks at its own (engine/lanes/outlook.ts), so that one which is
 * begun in between is not missed by both. Those that are opened in between are among them at once.
 */
import type { Clock } from "../../clock.ts";
import type { Lot } from "./lot.ts";

const KEPT_MS = 100;

export class UnreadLots {
  readonly #clock: Clock;
  /** By project. */
  readonly #lots = new Map<string, Lot[]>();
  #foundMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** One that was opened just now. */
  add(lot: Lot): void {
    const { project } = lot.record;
    const lots = this.#lots.get(project) ?? [];
    lots.push(lot);
    this.#lots.set(project, lots);
  }

  /** Items of a project in lots with a deadline (monotonic) of at most so much; `open` are all that are not over. */
  items(project: string, deadlineMs: number, open: Iterable<Lot>): number {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#foundMs >= KEPT_MS) {
      this.#foundMs = nowMs;
      this.#lots.clear();
      for (const lot of open) if (!lot.isLive) this.add(lot);
    }
    let items = 0;
    for (const lot of this.#lots.get(project) ?? [])
      if (lot.deadlineMs <= deadlineMs) items += lot.record.items;
    return items;
  }
}
