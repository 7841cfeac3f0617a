/**
 * Reads answer lines by their places: neighbours in one read, in the order of their places, each checked against its checksum.
 */
import { type Disk, type DiskFile, errorCodeOf } from "../../disk.ts";
import { type CheckedPlace, isAnswerWhole } from "../../engine/journal/answer_check.ts";

/** A line of a file of answers. */
export interface LinePlace extends CheckedPlace {
  readonly line: number;
}

/** A line as read; `bytes` is undefined if the file does not contain what was written there. */
export interface ReadLine {
  readonly place: LinePlace;
  readonly bytes: Uint8Array | undefined;
}

/** Bytes read at once, unless one line is longer. */
const READ_BYTES_MAX = 256 * 1024;
/** Gaps between two lines up to this size are read rather than skipped. */
const GAP_BYTES_MAX = 4 * 1024;

/** Yields each line with its bytes, sorted by place. The file is open meanwhile. */
export async function* readPlaces(
  disk: Disk,
  path: string,
  places: readonly LinePlace[],
): AsyncGenerator<ReadLine> {
  if (places.length === 0) return;
  const sorted = [...places].sort((a, b) => a.start - b.start);
  const file = await openIfThere(disk, path);
  if (file === undefined) {
    for (const place of sorted) yield { place, bytes: undefined };
    return;
  }
  try {
    for (let from = 0; from < sorted.length; ) {
      const to = endOfRun(sorted, from);
      const start = (sorted[from] as LinePlace).start;
      const last = sorted[to - 1] as LinePlace;
      const bytes = await readWhole(file, start, last.start + last.lengthBytes - start);
      for (const place of sorted.slice(from, to)) {
        const line = bytes.subarray(place.start - start, place.start - start + place.lengthBytes);
        yield { place, bytes: isAnswerWhole(line, place) ? line : undefined };
      }
      from = to;
    }
  } finally {
    await file.close();
  }
}

async function openIfThere(disk: Disk, path: string): Promise<DiskFile | undefined> {
  try {
    return await disk.open(path, "read");
  } catch (error) {
    if (errorCodeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Index of the first place that is not read together with the one at `from`. */
function endOfRun(sorted: readonly LinePlace[], from: number): number {
  const { start } = sorted[from] as LinePlace;
  let end = start + (sorted[from] as LinePlace).lengthBytes;
  let to = from + 1;
  for (; to < sorted.length; to += 1) {
    const next = sorted[to] as LinePlace;
    const nextEnd = next.start + next.lengthBytes;
    if (next.start - end > GAP_BYTES_MAX || nextEnd - start > READ_BYTES_MAX) break;
    end = nextEnd;
  }
  return to;
}

async function readWhole(file: DiskFile, position: number, lengthBytes: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(lengthBytes);
  let filled = 0;
  while (filled < lengthBytes) {
    const read = await file.read(bytes.subarray(filled), position + filled);
    if (read === 0) break; // shorter than the journal says
    filled += read;
  }
  return bytes.subarray(0, filled);
}
