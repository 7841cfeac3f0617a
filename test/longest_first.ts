/**
 * The order of the test files: the longest first, so that none of them runs by itself at the end.
 *
 * Files with a process of their own go before those that share one: a shared process ends where such a file follows.
 */
import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { LONG_FILES } from "./long_files.ts";

export class LongestFirst extends BaseSequencer {
  /** Files that are not listed go by the times of the last run where vitest has kept them, otherwise by size. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.sort((one, other) => this.#place(one) - this.#place(other));
  }

  #place({ moduleId, project }: TestSpecification): number {
    const index = LONG_FILES.indexOf(relative(this.ctx.config.root, moduleId));
    const place = index < 0 ? LONG_FILES.length : index;
    return project.config.isolate ? place - LONG_FILES.length - 1 : place;
  }
}
