/**
 * How often answers that are checked against a schema are asked for again, learnt by model: further requests for each item.
 *
 *   expected  = (a x 20 + further requests) / (20 + items)     a: 0.05, an assumption, weighed as 20 items
 *   low, high = expected -+ 2 x sqrt(expected / (20 + items)), within 0 and 2
 *
 * The spread is that of a Poisson count. Counts are halved at 2,000 items, so that the last few thousand decide; the 1,000 models last
 * added are kept.
 */
import type { JsonValue } from "../../store/learnt.ts";

const ASSUMED = 0.05;
const ASSUMED_ITEMS = 20;
const HALVE_AT = 2_000;
const MODELS_MAX = 1_000;
/** Of an item: it has three answers at most. */
const FURTHER_MAX = 2;

/** Further requests of one item. */
interface FurtherEstimate {
  readonly expected: number;
  readonly low: number;
  readonly high: number;
  /** Items that say so; 0: it is assumed. */
  readonly items: number;
}

interface Counts {
  items: number;
  further: number;
}

/** One for an engine. */
export class AnswerFits {
  readonly #models = new Map<string, Counts>();
  readonly #changed = new Set<string>();

  /** An answer was checked: the first of an item or not, and asked for again or not. */
  checked(
    model: string,
    { isFirst, isAgain }: { readonly isFirst: boolean; readonly isAgain: boolean },
  ): void {
    const counts = this.#of(model);
    if (isFirst) counts.items += 1;
    if (isAgain) counts.further += 1;
    this.#changed.add(model);
    if (counts.items < HALVE_AT) return;
    counts.items /= 2;
    counts.further /= 2;
  }

  /** For an item of a model, `<provider>:<name>`. */
  of(model: string): FurtherEstimate {
    const { items, further } = this.#models.get(model) ?? { items: 0, further: 0 };
    const weight = ASSUMED_ITEMS + items;
    const expected = Math.min(FURTHER_MAX, (ASSUMED * ASSUMED_ITEMS + further) / weight);
    const error = 2 * Math.sqrt(expected / weight);
    const [low, high] = [Math.max(0, expected - error), Math.min(FURTHER_MAX, expected + error)];
    return { expected, low, high, items };
  }

  /** See `ModelFigures` (kept_by_model.ts). */
  restore(model: string, kept: unknown): void {
    if (!Array.isArray(kept)) return;
    const [items, further] = kept as unknown[];
    const areCounts = typeof items === "number" && typeof further === "number" && items >= 0 && further >= 0;
    if (areCounts && items < Number.POSITIVE_INFINITY && further <= FURTHER_MAX * items)
      Object.assign(this.#of(model), { items: Math.min(items, HALVE_AT), further });
  }

  /** The same. */
  *changes(): Generator<readonly [model: string, figures: JsonValue]> {
    for (const model of this.#changed) {
      const { items, further } = this.#of(model);
      yield [model, [items, further]];
    }
    this.#changed.clear();
  }

  #of(model: string): Counts {
    let counts = this.#models.get(model);
    if (counts === undefined) {
      if (this.#models.size >= MODELS_MAX) this.#models.delete(this.#models.keys().next().value ?? "");
      counts = { items: 0, further: 0 };
      this.#models.set(model, counts);
    }
    return counts;
  }
}
