/** Chooses the rows of a file that become objects: rows that lie end to end and show completely. */
import type { Extent } from "./file_extents.ts";
import type { FileSizes } from "./file_sizes.ts";

/** A range of the file, from `start` up to `end`. */
export interface GatheredRun {
  readonly start: number;
  readonly end: number;
}

/** The runs to gather, in order. Each fits in an object. */
export function runsOf(
  extents: readonly Extent[],
  { object, gatheredRows, runMin }: FileSizes,
): GatheredRun[] {
  const runs: GatheredRun[] = [];
  let run = { start: 0, end: 0, rows: 0 };
  const end = (): void => {
    if (run.end - run.start >= runMin || run.rows >= gatheredRows / 4)
      runs.push({ start: run.start, end: run.end });
  };
  for (const { start, end: until, layer } of extents) {
    const isWhole =
      layer.sequence !== undefined && layer.object === undefined && layer.shownBytes === layer.storedBytes;
    const goesOn = isWhole && run.rows > 0 && run.end === start && until - run.start <= object;
    if (goesOn) {
      run = { start: run.start, end: until, rows: run.rows + 1 };
      continue;
    }
    end();
    run = isWhole ? { start, end: until, rows: 1 } : { start: until, end: until, rows: 0 };
  }
  end();
  return runs;
}
