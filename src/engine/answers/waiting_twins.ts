/**
 * Requests of one run that are under way, and the lines that wait for the answer to the same request.
 *
 *   first line asked --answered--------------------> the waiting lines get its answer
 *                    --failed: the first time------> the next of them is asked, the others wait on
 *                    --failed: once more-----------> all of them are asked by themselves
 *
 * A waiting line takes three numbers; everything else of it is read again from the input.
 */
import type { LinePlaces } from "../../shard/reload.ts";

/** Failures of one request after which no line waits for it. */
const FAILURES_MAX = 2;

/** A request under way. */
interface Asked {
  line: number;
  failures: number;
  /** Line, offset and length of each line that waits. */
  readonly waiting: number[];
}

/** Lines that no longer wait for the request that they waited for. */
export interface FreedTwins {
  readonly places: LinePlaces;
  /** Whether they wait for no other line any more. */
  readonly areAlone: boolean;
}

/** One for a run. Keys are those of requests, as texts. */
export class WaitingTwins {
  readonly #asked = new Map<string, Asked>();

  /** Whether the line waits for another from now on; else it is the one that is asked. */
  waits(key: string, { line, offset, length }: { line: number; offset: number; length: number }): boolean {
    const asked = this.#asked.get(key);
    if (asked === undefined) {
      this.#asked.set(key, { line, failures: 0, waiting: [] });
      return false;
    }
    if (asked.line === line) return false; // read a second time
    asked.waiting.push(line, offset, length);
    return true;
  }

  /** A line is under way already: others wait for it, unless they wait for one already. */
  leads(key: string, line: number): void {
    if (!this.#asked.has(key)) this.#asked.set(key, { line, failures: 0, waiting: [] });
  }

  /** The lines that are to be checked again now that a line has ended, in their order; undefined for none. */
  ended(key: string, line: number, isAnswered: boolean): FreedTwins | undefined {
    const asked = this.#asked.get(key);
    if (asked === undefined || asked.line !== line) return undefined;
    if (!isAnswered) asked.failures += 1;
    const isOver = isAnswered || asked.failures >= FAILURES_MAX || asked.waiting.length === 0;
    if (isOver) this.#asked.delete(key);
    const next = isOver ? asked.waiting : asked.waiting.splice(0, 3);
    if (next.length === 0) return undefined;
    asked.line = next[0] as number;
    return { places: placesOf(next), areAlone: isOver };
  }

  /** Nothing is asked, and nothing waits: the input is read again. */
  clear(): void {
    this.#asked.clear();
  }
}

function placesOf(triples: readonly number[]): LinePlaces {
  const rows = Array.from({ length: triples.length / 3 }, (_, row) => triples.slice(3 * row, 3 * row + 3));
  rows.sort(([left = 0], [right = 0]) => left - right);
  return {
    lines: Uint32Array.from(rows, ([line = 0]) => line),
    offsets: Float64Array.from(rows, ([, offset = 0]) => offset),
    lengths: Uint32Array.from(rows, ([, , length = 0]) => length),
  };
}
