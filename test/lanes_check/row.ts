/**
 * A row of the check of lanes: what it does, how often, and what came of it.
 */

/** How much of a row is done. */
export interface RowTerms {
  /** Trials at most; fewer if the time is over. */
  readonly trials: number;
  /** Whether the row's time is over; asked between trials. */
  isOver(): boolean;
}

export interface RowResult {
  /** What is wrong, with the seeds that show it; empty where the row passes. */
  readonly faults: readonly string[];
  /** What was measured, in words. */
  readonly figures: string;
  /** `1..200`, or other words that repeat it. */
  readonly seeds: string;
}

/** One line of the table. */
export interface Row {
  readonly name: string;
  readonly passesAt: string;
  /** Trials of the whole check. */
  readonly trials: number;
  /** Of the check's time, relative to other rows: as its trials need processor time. */
  readonly weight: number;
  run(terms: RowTerms): Promise<RowResult>;
}

/** Runs trials with seeds from 1 on until there were enough or the time is over; returns what each gave. */
export async function eachSeed<T>(
  { trials, isOver }: RowTerms,
  trial: (seed: number) => Promise<T> | T,
): Promise<readonly T[]> {
  const results: T[] = [];
  for (let seed = 1; seed <= trials && !(seed > 1 && isOver()); seed += 1) results.push(await trial(seed));
  return results;
}

/** `1..n`. */
export function seedsOf(results: readonly unknown[]): string {
  return `1..${results.length}`;
}

/** A fault for each claim that does not hold. */
export function faultsOf(claims: Readonly<Record<string, boolean>>): readonly string[] {
  return Object.entries(claims).flatMap(([claim, holds]) => (holds ? [] : [`not so: ${claim}`]));
}

/** The value below which the part `share` of values is. */
export function quantileOf(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** `97.3 %`. */
export function percentOf(share: number): string {
  return `${Math.round(share * 1_000) / 10} %`;
}
