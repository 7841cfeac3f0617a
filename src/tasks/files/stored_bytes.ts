/**
 * The disk use of each project's files, including uploads under way, and its limit.
 */
import { PerigeeError } from "../../errors.ts";

/** Only in memory; a start counts the stored files. */
export class StoredBytes {
  readonly #max: number;
  readonly #bytes = new Map<string, number>();

  /** `max`: bytes per project. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Counts existing bytes, even above the limit. */
  add(project: string, bytes: number): void {
    this.#bytes.set(project, (this.#bytes.get(project) ?? 0) + bytes);
  }

  /** Throws `too_large` if they exceed the limit; then nothing is counted. */
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
