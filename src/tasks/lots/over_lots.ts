/**
 * Recently read lots that are over, kept in memory while they are few and small.
 *
 * Limit: 4,000,000 lines, about 100 MB; a lot counts as 200 lines in addition to its own.
 */
import type { Lot } from "./lot.ts";

const LINES_MAX = 4_000_000;
/** Memory of a lot apart from its lines, in lines: about 5 kB. */
const LOT_AS_LINES = 200;

/** A cache: other lots are read again from the store and the output. */
export class OverLots {
  /** The most recently read one is last. */
  readonly #lots = new Map<string, { readonly lot: Promise<Lot>; readonly lines: number }>();
  #lines = 0;

  get(id: string): Promise<Lot> | undefined {
    const known = this.#lots.get(id);
    if (known === undefined) return undefined;
    this.#lots.delete(id);
    this.#lots.set(id, known);
    return known.lot;
  }

  /** `lines`: those of the lot. A lot that cannot be loaded is not kept. */
  keep(id: string, lot: Promise<Lot>, lines: number): void {
    this.forget(id);
    this.#lots.set(id, { lot, lines: lines + LOT_AS_LINES });
    this.#lines += lines + LOT_AS_LINES;
    lot.catch(() => this.forget(id));
    for (const oldest of this.#lots.keys()) {
      if (this.#lines <= LINES_MAX || oldest === id) return;
      this.forget(oldest);
    }
  }

  forget(id: string): void {
    this.#lines -= this.#lots.get(id)?.lines ?? 0;
    this.#lots.delete(id);
  }
}
