/** Which rows of a file become objects: those that lie end to end, and of which all shows. */
import type { Extent } from "./file_extents.ts";

const RUN_BYTES_MAX = 8 << 20;
/** A run of fewer bytes and rows stays as it is. */
const RUN_BYTES_MIN = 1 << 20;
const RUN_ROWS_MIN = 256;

/** From `start` up to `end` in the file. */
export interface GatheredRun {
  readonly start: number;
  readonly end: number;
}

/** Of at most 8 MiB each. */
export function runsOf(extents: readonly Extent[]): GatheredRun[] {
  const runs: GatheredRun[] = [];
  let run = { start: 0, end: 0, rows: 0 };
  const end = (): void => {
    if (run.end - run.start >= RUN_BYTES_MIN || run.rows >= RUN_ROWS_MIN)
      runs.push({ start: run.start, end: run.end });
  };
  for (const { start, end: until, layer } of extents) {
    const isWhole = layer.sequence !== undefined && layer.object === undefined && layer.shownBytes === layer.storedBytes;
    const goesOn = isWhole && run.rows > 0 && run.end === start && until - run.start <= RUN_BYTES_MAX;
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
