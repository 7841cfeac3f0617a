/**
 * What a simulated run may meet, drawn in pairs: each seed forces one pair of features, and what else it draws is extra.
 *
 * Faults hide where two things meet (a cap and two models, a full disk and a restart). All pairs are forced once in as many
 * seeds in a row as there are pairs; the table says which of them took effect in the same run.
 */

/** What seeds below `SECOND_DRAWN_FROM` draw from: those that once broke a law draw the same for ever. */
const FIRST_FEATURES = [
  "models", // several of one provider
  "shared_limit", // requests a minute of a whole provider
  "concurrency", // places of a whole provider
  "cap",
  "projects", // several runs at once
  "deadline",
  "ordered",
  "stream",
  "faults", // of single items
  "poison", // items that fail a dozen times
  "outage", // a provider that is down for a while
  "throttled", // a provider that answers 429 for a while
  "quota_stop",
  "key_refused",
  "kill",
  "power_cut",
  "stop",
  "disk_full",
  "store_full",
  "disk_error",
  "wall_jump",
  "at_most_once",
] as const;

/** What seeds below `THIRD_DRAWN_FROM` and from `SECOND_DRAWN_FROM` on draw from. */
const SECOND_FEATURES = [
  ...FIRST_FEATURES,
  "cap_raised", // by the caller of a run that its cap has stopped
  "provider_missing", // in the configuration, for one or two engines
] as const;

/** What seeds below `ALL_DRAWN_FROM` and from `THIRD_DRAWN_FROM` on draw from. */
const THIRD_FEATURES = [
  ...SECOND_FEATURES,
  "shared_cap", // of several runs, by its name
  "retry", // of lines that ended in an error, when the run is finished
  "update", // of the input, when the run is finished
  "waits", // `waitMs` of a call
] as const;

export const FEATURES = [
  ...THIRD_FEATURES,
  "flex", // a provider with a cheaper tier, and a deadline
] as const;

export type Feature = (typeof FEATURES)[number];

const SECOND_DRAWN_FROM = 100_000_000;
const THIRD_DRAWN_FROM = 106_000_000;
/** Seeds from here on draw from all features. */
export const ALL_DRAWN_FROM = 2_100_000_000;

/** All pairs, in an order that never changes. */
const PAIRS = pairsOf(FEATURES);
const THIRD_PAIRS = pairsOf(THIRD_FEATURES);
const SECOND_PAIRS = pairsOf(SECOND_FEATURES);
const FIRST_PAIRS = pairsOf(FIRST_FEATURES);

/** What a seed draws from, and the pair that it forces. */
export function drawnBy(seed: number): {
  readonly features: readonly Feature[];
  readonly pair: readonly [Feature, Feature];
} {
  const [features, pairs] = drawnFrom(seed);
  return { features, pair: pairs[seed % pairs.length] as readonly [Feature, Feature] };
}

function drawnFrom(seed: number): readonly [readonly Feature[], ReturnType<typeof pairsOf>] {
  if (seed < SECOND_DRAWN_FROM) return [FIRST_FEATURES, FIRST_PAIRS];
  if (seed < THIRD_DRAWN_FROM) return [SECOND_FEATURES, SECOND_PAIRS];
  return seed < ALL_DRAWN_FROM ? [THIRD_FEATURES, THIRD_PAIRS] : [FEATURES, PAIRS];
}

function pairsOf(features: readonly Feature[]): readonly (readonly [Feature, Feature])[] {
  return features.flatMap((one, index) => features.slice(index + 1).map((other) => [one, other] as const));
}

/** Which pairs took effect, over many runs. */
export class PairTable {
  readonly #met = new Map<string, number>();

  add(met: Iterable<Feature>): void {
    const features = [...met].sort((one, other) => FEATURES.indexOf(one) - FEATURES.indexOf(other));
    for (const [index, one] of features.entries())
      for (const other of features.slice(index + 1))
        this.#met.set(nameOf(one, other), this.count(one, other) + 1);
  }

  count(one: Feature, other: Feature): number {
    return this.#met.get(nameOf(one, other)) ?? 0;
  }

  get pairs(): number {
    return PAIRS.length;
  }

  get missing(): readonly string[] {
    return PAIRS.filter(([one, other]) => this.count(one, other) === 0).map(
      ([one, other]) => `${one} x ${other}`,
    );
  }

  /** One row for each feature: in how many runs it met each of those before it. */
  toString(): string {
    const width = Math.max(...FEATURES.map((name) => name.length));
    const rows = FEATURES.map((name, row) => {
      const cells = FEATURES.slice(0, row).map((other) => String(this.count(other, name)).padStart(5));
      return `${name.padEnd(width)} ${cells.join("")}`;
    });
    const missing = this.missing.length === 0 ? "" : `\nnever met: ${this.missing.join(", ")}`;
    return `pairs met: ${PAIRS.length - this.missing.length} of ${PAIRS.length}\n${rows.join("\n")}${missing}`;
  }
}

function nameOf(one: Feature, other: Feature): string {
  return `${one} ${other}`;
}
