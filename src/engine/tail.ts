/**
 * The tail of an unfinished output: what stands beyond its last step. Own answers are adopted, a torn line is cut, and lines
 * that the run did not write are kept beside it.
 *
 *   own lines that follow the last step -> adopted where they are
 *   other lines after them -> all of the rest is copied to `<output>.perigee-tail`, whole and synced -> the output is cut
 *     -> own lines in the copy are adopted at the end of the output -> the copy becomes `<output>.damaged`, or is removed if it
 *        has no others
 *
 * A kill leaves the tail as it was, or the copy whole, which the next call goes on with; a rest that was copied and not cut is
 * recognised by its bytes. Without a tail this takes one look at the folder. Memory is that of a step and a line; see `tail_lines.ts`
 * for tails that no request under way explains.
 */
import type { Disk, DiskFile } from "../disk.ts";
import { Adoption, type AdoptionParts } from "./adoption.ts";
import { chunksOf, freePath, type LineOfFile, linesOf, openAsLines } from "./changed_file.ts";
import { checksumOf } from "./checksum.ts";
import type { Replay } from "./replay.ts";
import { type LineSources, TailLines } from "./tail_lines.ts";
import { partPath } from "./task_files.ts";

/** Far above what an answer of 32 MiB takes in JSON. */
const LINE_BYTES_MAX = 256 * 1024 * 1024;

export interface TailParts extends AdoptionParts, LineSources {
  readonly disk: Disk;
  /** Where the answers are at the end: the output itself, unless they are put in order. */
  readonly out: string;
  /** Writes when the disk has room for it. */
  readonly whenRoom: <T>(write: () => Promise<T>) => Promise<T>;
  /** Says to the operator what was kept, and where. */
  readonly notice: (message: string) => void;
}

/**
 * Ends with the output cut to its last step, which adopted lines are part of. `alsoIn` is a file beside the output in which own
 * lines may stand.
 */
export async function recoverTail(
  parts: TailParts,
  replay: Replay,
  alsoIn: string | undefined,
): Promise<void> {
  const { output, disk, out } = parts;
  const aside = `${output.path}.perigee-tail`;
  const hasOthers = await adoptInPlace(parts, replay);
  if (hasOthers) await copyRest(parts, replay.outEnd, aside);
  output.resume(replay.outEnd, replay.outCrc32);
  await output.cut();
  if (hasOthers) await output.sync();
  if ((await disk.stat(aside)) !== undefined) {
    const foreign = await adoptFrom(parts, replay, aside);
    if (foreign === 0) await disk.remove(aside);
    else await keep(parts, aside, foreign);
  }
  if (alsoIn === undefined || (await disk.stat(alsoIn)) === undefined) return;
  const foreign = await adoptFrom(parts, replay, alsoIn);
  if (alsoIn === out && foreign > 0) await keep(parts, out, foreign); // it is written over at the end
}

/** Adopts the own lines that follow the last step; whether others stand after them. */
async function adoptInPlace(parts: TailParts, replay: Replay): Promise<boolean> {
  const { output } = parts;
  if (output.end <= replay.outEnd) return false;
  const from = replay.outEnd;
  const tail = (): AsyncGenerator<LineOfFile> => linesOf(output.file, { from, lineBytesMax: LINE_BYTES_MAX });
  const lines = new TailLines(parts, replay, tail);
  const adoption = new Adoption(parts, replay);
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

/** Copies the output from there on, after what an earlier call has copied and not worked off. */
async function copyRest({ disk, output, whenRoom }: TailParts, from: number, aside: string): Promise<void> {
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
      if (earlier !== undefined && !(await isBegunWith(output.file, from, earlier)))
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

async function isBegunWith(file: Pick<DiskFile, "read">, from: number, start: DiskFile): Promise<boolean> {
  const rest = { read: (into: Uint8Array, position: number) => file.read(into, from + position) };
  const sizeBytes = await start.sizeBytes();
  return String(await checksumOf(rest, sizeBytes)) === String(await checksumOf(start, sizeBytes));
}

/** Gives a file with lines of others a name that is never written over. */
async function keep(
  { disk, out, output, whenRoom, notice }: TailParts,
  path: string,
  foreign: number,
): Promise<void> {
  const holder = path === out ? out : output.path;
  const damaged = await freePath(disk, `${holder}.damaged`);
  await whenRoom(() => disk.rename(path, damaged));
  const what = foreign === 1 ? "1 line" : `${foreign} lines`;
  notice(
    `${holder} held ${what} that this run did not write or that were changed since; they are kept in ${damaged}`,
  );
}

/** Adopts the own lines of a file at the end of the output; returns how many others it has. */
async function adoptFrom(parts: TailParts, replay: Replay, path: string): Promise<number> {
  const { disk, whenRoom } = parts;
  const decodedPath = `${path}.perigee-decoded`;
  const file = await whenRoom(() => openAsLines(disk, path, decodedPath));
  try {
    const inFile = (): AsyncGenerator<LineOfFile> => linesOf(file, { lineBytesMax: LINE_BYTES_MAX });
    const lines = new TailLines(parts, replay, inFile);
    const adoption = new Adoption(parts, replay);
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
    await disk.remove(decodedPath);
  }
}
