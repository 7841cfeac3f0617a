/**
 * The output files of tasks that write their answers there, as lines one after the other.
 *
 *   closed -> open -> held      a write failed: lines become answers until they are released
 *             open -> closed
 */
import assert from "node:assert";
import type { DiskFile } from "../disk.ts";

export class LogOutputs {
  readonly #files = new Map<number, DiskFile>();
  readonly #held = new Set<number>();

  open(task: number, file: DiskFile): void {
    this.#files.set(task, file);
  }

  /** Whether lines of a task go to its file now. */
  takesLines(task: number): boolean {
    return this.#files.has(task) && !this.#held.has(task);
  }

  fileOf(task: number): DiskFile {
    const file = this.#files.get(task);
    assert(file !== undefined, `the output of task ${task} is open while lines of it are staged`);
    return file;
  }

  isHeld(task: number): boolean {
    return this.#held.has(task);
  }

  hold(task: number): void {
    this.#held.add(task);
  }

  unhold(task: number): void {
    this.#held.delete(task);
  }

  close(task: number): void {
    this.#files.delete(task);
    this.#held.delete(task);
  }
}
