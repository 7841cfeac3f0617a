/**
 * The tail of an unfinished output: its bytes after the last recorded step. The run's own answers are adopted, a torn line is
 * cut, and lines that the run did not write are kept in a file beside the output.
 *
 *   own lines directly after the last step -> adopted where they are
 *   other lines after them -> everything from the first of them on is copied to `<output>.perigee-tail`, whole and synced
 *     -> the output is cut -> own lines in the copy are adopted at the end of the output -> the copy becomes `<output>.damaged`,
 *        or is removed if all of its lines are the run's own
 *
 * After a kill the tail is unchanged, or the copy is complete and the next call continues with it. If the kill was before the
 * output was cut, the next call sees that the copy has the same bytes, and does not copy them twice. Without a tail this costs one
 * `stat`. Memory: one step and one line; for tails that requests under way do not explain, see `tail_lines.ts`.
 */
import type { Disk, DiskFile } from "../../disk.ts";
import { type LineSources, TailLines } from "../files/tail_lines.ts";
import { partPath } from "../files/task_files.ts";
import {
  chunksOf,
  damagedPath,
  decodedPath,
  type LineOfFile,
  linesOf,
  openAsLines,
} from "../journal/changed_file.ts";
import { checksumOf } from "../journal/checksum.ts";
import type { Replay } from "../journal/replay.ts";
import { type AdoptedCosts, type AdoptedSteps, Adoption } from "./adoption.ts";

/** An answer of 32 MiB takes far less in JSON. */
const LINE_BYTES_MAX = 256 * 1024 * 1024;

export interface TailOptions extends LineSources {
  readonly steps: AdoptedSteps;
  readonly costs: AdoptedCosts;
  readonly disk: Disk;
  /** The output that the caller named. Answers that are put in order at the end are in another file until then. */
  readonly out: string;
  /** Repeats a write until the disk has space for it. */
  readonly whenRoom: <T>(write: () => Promise<T>) => Promise<T>;
  /** Notifies the operator of what was kept, and where. */
  readonly notice: (message: string) => void;
}

/**
 * Adopts the own lines of the tail and of `alsoIn`, a file beside the output that may have some. Afterwards the output ends
 * with its last step, and lines of others are in a `.damaged` file.
 */
export async function recoverTail(
  options: TailOptions,
  replay: Replay,
  alsoIn: string | undefined,
): Promise<void> {
  const { steps, disk, out } = options;
  const { output } = steps;
  const aside = `${output.path}.perigee-tail`;
  const hasOthers = await adoptInPlace(options, replay);
  if (hasOthers) await copyRest(options, replay.outEnd, aside);
  output.resume(replay.outEnd, replay.outCrc32);
  await output.cut();
  if (hasOthers) await output.sync();
  if ((await disk.stat(aside)) !== undefined) {
    const foreign = await adoptFrom(options, replay, aside);
    if (foreign === 0) await disk.remove(aside);
    else await keep(options, aside, foreign);
  }
  if (alsoIn === undefined || (await disk.stat(alsoIn)) === undefined) return;
  const foreign = await adoptFrom(options, replay, alsoIn);
  if (alsoIn === out && foreign > 0) await keep(options, out, foreign); // the ordered answers overwrite it at the end
}

/** Adopts the own lines that follow the last step. Returns whether other lines follow them, which have to be copied. */
async function adoptInPlace(options: TailOptions, replay: Replay): Promise<boolean> {
  const { output } = options.steps;
  if (output.end <= replay.outEnd) return false;
  const from = replay.outEnd;
  const tail = (): AsyncGenerator<LineOfFile> => linesOf(output.file, { from, lineBytesMax: LINE_BYTES_MAX });
  const lines = new TailLines(options, replay, tail);
  const adoption = new Adoption(options.steps, options.costs, replay);
  let isNext = true;
  let hasOthers = false;
  for await (const line of tail()) {
    const verdict = await lines.judge(line);
    if (verdict.kind === "own" && isNext && verdict.own.isAsWritten) {
      await adoption.add(verdict.own);
      continue;
    }
    isNext = false;
    hasOthers = verdict.kind === "own" || verdict.kind === "foreign";
    if (hasOthers) break;
  }
  await adoption.flush();
  return hasOthers;
}

/** Copies the output from an offset on, after lines that an earlier call copied and did not finish. */
async function copyRest(
  { disk, steps: { output }, whenRoom }: TailOptions,
  from: number,
  aside: string,
): Promise<void> {
  const part = partPath(aside);
  const earlier = (await disk.stat(aside)) === undefined ? undefined : await disk.open(aside, "read");
  try {
    const file = await whenRoom(() => disk.open(part, "write"));
    try {
      await whenRoom(() => file.truncate(0));
      let end = 0;
      const append = async (chunks: AsyncIterable<Uint8Array>): Promise<void> => {
        for await (const chunk of chunks) {
          await whenRoom(() => file.write(chunk, end));
          end += chunk.byteLength;
        }
      };
      if (earlier !== undefined && !(await holdsAt(output.file, from, earlier)))
        await append(chunksOf(earlier));
      await append(chunksOf(output.file, from));
      await whenRoom(() => file.sync());
    } finally {
      await file.close();
    }
  } finally {
    await earlier?.close();
  }
  await whenRoom(() => disk.rename(part, aside));
}

/** Whether a file has, from an offset on, the bytes of another one. */
async function holdsAt(file: Pick<DiskFile, "read">, from: number, other: DiskFile): Promise<boolean> {
  const rest = { read: (into: Uint8Array, position: number) => file.read(into, from + position) };
  const sizeBytes = await other.sizeBytes();
  return String(await checksumOf(rest, sizeBytes)) === String(await checksumOf(other, sizeBytes));
}

/** Renames a file with lines of others to a name that nothing overwrites. */
async function keep(
  { disk, out, steps: { output }, whenRoom, notice }: TailOptions,
  path: string,
  foreign: number,
): Promise<void> {
  const holder = path === out ? out : output.path;
  const damaged = await damagedPath(disk, holder);
  await whenRoom(() => disk.rename(path, damaged));
  const what = foreign === 1 ? "1 line" : `${foreign} lines`;
  notice(
    `${holder} held ${what} that this run did not write or that were changed since; they are kept in ${damaged}`,
  );
}

/** Adopts the own lines of a file at the end of the output. Returns the number of its foreign lines. */
async function adoptFrom(options: TailOptions, replay: Replay, path: string): Promise<number> {
  const { disk, whenRoom } = options;
  const decoded = decodedPath(path);
  const file = await whenRoom(() => openAsLines(disk, path, decoded));
  try {
    const inFile = (): AsyncGenerator<LineOfFile> => linesOf(file, { lineBytesMax: LINE_BYTES_MAX });
    const lines = new TailLines(options, replay, inFile);
    const adoption = new Adoption(options.steps, options.costs, replay);
    let foreign = 0;
    for await (const line of inFile()) {
      const verdict = await lines.judge(line);
      if (verdict.kind === "own") await adoption.add(verdict.own);
      else if (verdict.kind === "foreign") foreign += 1;
    }
    await adoption.flush();
    return foreign;
  } finally {
    await file.close();
    await disk.remove(decoded);
  }
}
