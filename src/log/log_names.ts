/**
 * Numbers for texts that records speak of again and again: projects, lanes, prices, reasons. They stay for good, so nothing
 * that can be erased belongs here.
 *
 *   unknown -> numbered -> stored with the commit that uses it first, or the next one if that is refused
 */
import { PerigeeError } from "../errors.ts";

const NAMES_MAX = 1_000_000;

export class LogNames {
  readonly #texts: string[];
  readonly #numbers = new Map<string, number>();
  #stored: number;

  /** The stored ones, in the order of their numbers from 1. */
  constructor(stored: readonly string[]) {
    this.#texts = [...stored];
    this.#stored = stored.length;
    for (const [index, text] of stored.entries()) this.#numbers.set(text, index + 1);
  }

  /** The number of a text, the same from now on. Throws `too_many` above 1,000,000. */
  numberOf(text: string): number {
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    if (this.#texts.length === NAMES_MAX)
      throw new PerigeeError("too_many", `the work log has ${NAMES_MAX} names already`);
    const number = this.#texts.push(text);
    this.#numbers.set(text, number);
    return number;
  }

  /** Undefined for 0, and for a number that no text has. */
  textOf(number: number): string | undefined {
    return this.#texts[number - 1];
  }

  get count(): number {
    return this.#texts.length;
  }

  /** Those that no commit has stored yet. */
  unstored(): (readonly [number: number, text: string])[] {
    return this.#texts.slice(this.#stored).map((text, index) => [this.#stored + index + 1, text]);
  }

  /** A commit with the first `count` of `unstored` took effect. */
  stored(count: number): void {
    this.#stored += count;
  }
}
