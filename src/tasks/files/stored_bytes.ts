/**
 * What each project's files take on the disk, while they come too, and how much that may be.
 */
import { PerigeeError } from "../../errors.ts";

/** In memory alone; a start counts what is there. */
export class StoredBytes {
  readonly #max: number;
  readonly #bytes = new Map<string, number>();

  /** `max` is of one project. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Counts bytes that are there whatever the bound says. */
  add(project: string, bytes: number): void {
    this.#bytes.set(project, (this.#bytes.get(project) ?? 0) + bytes);
  }

  /** Throws `too_large` when there is no room for them; then nothing is counted. */
  reserve(project: string, bytes: number): void {
    if ((this.#bytes.get(project) ?? 0) + bytes > this.#max)
      throw new PerigeeError(
        "too_large",
        `the files of a project have at most ${this.#max} bytes in all; remove some`,
        { details: { param: "file", max: this.#max } },
      );
    this.add(project, bytes);
  }

  subtract(project: string, bytes: number): void {
    const others = (this.#bytes.get(project) ?? 0) - bytes;
    if (others > 0) this.#bytes.set(project, others);
    else this.#bytes.delete(project);
  }
}
