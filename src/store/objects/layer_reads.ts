/**
 * Reads bytes of layers from memory, from rows or from objects. Stored bytes are read in whole blocks of 64 KiB and checked.
 */
import { PerigeeError } from "../../errors.ts";
import type { FileRows, WantedBytes } from "../file_rows.ts";
import { BLOCK_BYTES, matchesSums } from "./block_sums.ts";
import type { Extent, FileLayer } from "./file_extents.ts";
import type { Objects } from "./objects.ts";

/** The most bytes of rows that are read at once. */
const ROWS_BYTES = 1 << 20;
/** How many objects are read at once. */
const OBJECTS_AT_ONCE = 4;

/** Where the bytes of files are. */
export interface LayerStorage {
  readonly files: Pick<FileRows, "bytes">;
  readonly objects: Objects;
}

/** A part of `into` that a layer fills. */
interface Part {
  readonly layer: FileLayer;
  readonly target: Uint8Array;
  /** Where the part begins in the stored bytes of the layer. */
  readonly offset: number;
}

/** A layer that could not be read, and the reason. */
export interface Unread {
  readonly layer: FileLayer;
  readonly why: string;
}

/**
 * Fills `into`, whose first byte is at `position` of the file, with what shows; gaps are left as they are. Resolves with the first layer that is
 * missing or damaged. Rejects when rows or objects cannot be reached.
 */
export async function readExtents(
  { files, objects }: LayerStorage,
  id: number,
  extents: readonly Extent[],
  into: Uint8Array,
  position: number,
): Promise<Unread | undefined> {
  const parts = extents.map(({ start, end, layer }): Part => {
    const from = Math.max(start, position);
    const to = Math.min(end, position + into.byteLength);
    return { layer, target: into.subarray(from - position, to - position), offset: from - layer.start };
  });
  const rows: Part[] = [];
  const stored: Part[] = [];
  for (const part of parts) {
    const { layer, target, offset } = part;
    if (layer.bytes !== undefined) target.set(layer.bytes.subarray(offset, offset + target.byteLength));
    else (layer.object === undefined ? rows : stored).push(part);
  }
  for (let next = 0; next < rows.length; ) {
    const batch = rows.slice(next, next + countOf(rows, next));
    const found = await files.bytes(
      id,
      batch.map((part): WantedBytes => ({ sequence: part.layer.sequence ?? 0, ...blocksOf(part) })),
    );
    for (const [index, part] of batch.entries()) {
      const unread = taken(part, found[index]);
      if (unread !== undefined) return unread;
    }
    next += batch.length;
  }
  for (let next = 0; next < stored.length; next += OBJECTS_AT_ONCE) {
    const unread = await Promise.all(
      stored.slice(next, next + OBJECTS_AT_ONCE).map(async (part) => {
        const { offset, lengthBytes } = blocksOf(part);
        return taken(part, await objects.get(part.layer.object ?? "", offset, lengthBytes));
      }),
    );
    const first = unread.find((one) => one !== undefined);
    if (first !== undefined) return first;
  }
  return undefined;
}

/** The `store_damaged` error of a file that cannot be read. */
export function damagedSegment(path: string, { layer, why }: Unread): PerigeeError {
  const what = layer.object === undefined ? `segment ${layer.sequence}` : `object ${layer.object}`;
  return new PerigeeError(
    "store_damaged",
    `${path} cannot be read from byte ${layer.start} on: ${what} ${why}; restore the database and the objects from backups of one time`,
    { details: { path, from: layer.start, ...(layer.object === undefined ? {} : { object: layer.object }) } },
  );
}

function countOf(parts: readonly Part[], from: number): number {
  let bytes = 0;
  let count = 0;
  for (const part of parts.slice(from)) {
    bytes += part.target.byteLength;
    if (count > 0 && bytes > ROWS_BYTES) break;
    count += 1;
  }
  return count;
}

/** The range of stored bytes, in whole blocks, that holds a part. */
function blocksOf({ layer, target, offset }: Part): Omit<WantedBytes, "sequence"> {
  const first = offset - (offset % BLOCK_BYTES);
  const end = Math.min(
    layer.storedBytes,
    Math.ceil((offset + target.byteLength) / BLOCK_BYTES) * BLOCK_BYTES,
  );
  return { offset: first, lengthBytes: end - first };
}

function taken(part: Part, found: Uint8Array | undefined): Unread | undefined {
  const { layer, target } = part;
  const { offset, lengthBytes } = blocksOf(part);
  if (found === undefined) return { layer, why: "does not exist" };
  if (found.byteLength !== lengthBytes)
    return { layer, why: `is too short: it has ${found.byteLength} of ${lengthBytes} bytes at ${offset}` };
  if (!matchesSums(found, offset / BLOCK_BYTES, layer.sums))
    return { layer, why: `does not match its checksum at ${offset}` };
  target.set(found.subarray(part.offset - offset, part.offset - offset + target.byteLength));
  return undefined;
}
