/**
 * Finds the answers of a lot that are not on the disk as they were written, before the file is served as a whole.
 *
 * Every answer is checked once, and all of them again if the file was replaced or written to since the lot was over. Reading takes a
 * second per gigabyte; only the broken lines are remembered.
 */
import type { Disk } from "../../disk.ts";
import { type LinePlace, readPlaces } from "./answer_file.ts";

/** The durable part of a file of answers. */
export interface AnswerFile {
  readonly path: string;
  readonly end: number;
  /** Nothing is appended any more. */
  readonly isOver: boolean;
  /** The places of its lines, in groups. */
  readonly places: Iterable<readonly LinePlace[]>;
}

/** One for a lot. */
export class BrokenLines {
  readonly #found = new Map<number, LinePlace>();
  #state = "";
  #checkedEnd = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** The broken lines, in the order of their places in the file. */
  find(disk: Disk, file: AnswerFile): Promise<readonly LinePlace[]> {
    const found = this.#last.then(() => this.#find(disk, file));
    this.#last = found.catch(() => undefined);
    return found;
  }

  async #find(disk: Disk, { path, end, isOver, places }: AnswerFile): Promise<readonly LinePlace[]> {
    const now = await disk.stat(path);
    const state = `${now?.identity}:${isOver ? now?.modifiedMs : "at work"}`;
    if (state !== this.#state) {
      this.#found.clear();
      this.#checkedEnd = 0;
    }
    for (const some of places) {
      const fresh = some.filter(({ start }) => start >= this.#checkedEnd && start < end);
      for await (const { place, bytes } of readPlaces(disk, path, fresh))
        if (bytes === undefined) this.#found.set(place.line, place);
    }
    this.#state = state;
    this.#checkedEnd = end;
    return [...this.#found.values()].sort((a, b) => a.start - b.start);
  }
}
