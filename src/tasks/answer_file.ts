/**
 * Answer lines read by their places: neighbours in one read, in the order asked for.
 */
import type { Disk, DiskFile } from "../disk.ts";

/** A line of a file of answers, its line end included. */
export interface LinePlace {
  readonly line: number;
  readonly start: number;
  readonly lengthBytes: number;
}

/** Bytes read at once, unless one line is longer. */
const READ_BYTES_MAX = 256 * 1024;
/** Bytes between two lines that are read along rather than skipped. */
const GAP_BYTES_MAX = 4 * 1024;

/** Gives each line with its bytes, sorted by where they stand. The file is open meanwhile. */
export async function* readPlaces(
  disk: Disk,
  path: string,
  places: readonly LinePlace[],
): AsyncGenerator<{ readonly place: LinePlace; readonly bytes: Uint8Array }> {
  if (places.length === 0) return;
  const sorted = [...places].sort((a, b) => a.start - b.start);
  const file = await disk.open(path, "read");
  try {
    for (let from = 0; from < sorted.length; ) {
      const to = endOfRun(sorted, from);
      const start = (sorted[from] as LinePlace).start;
      const last = sorted[to - 1] as LinePlace;
      const bytes = await readWhole(file, start, last.start + last.lengthBytes - start);
      for (const place of sorted.slice(from, to))
        yield { place, bytes: bytes.subarray(place.start - start, place.start - start + place.lengthBytes) };
      from = to;
    }
  } finally {
    await file.close();
  }
}

/** The first of the places that is not read together with the one at `from`. */
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
    if (read === 0) break; // shorter than the journal says: the caller finds no line there
    filled += read;
  }
  return bytes;
}
