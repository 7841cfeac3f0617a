/** Cuts what was written into pieces: large runs become objects, the rest rows. */
import type { Extent } from "./file_extents.ts";
import type { FileSizes } from "./file_sizes.ts";

export interface WrittenPiece {
  readonly start: number;
  readonly bytes: Uint8Array;
  /** Whether it is to be an object. */
  readonly isLarge: boolean;
}

/** The pieces of `extents`, which are in memory and in order. */
export function piecesOf(extents: readonly Extent[], sizes: FileSizes): WrittenPiece[] {
  const pieces: WrittenPiece[] = [];
  let run: Extent[] = [];
  const end = (): void => {
    const [first] = run;
    if (first !== undefined) pieces.push(...cut(first.start, joinedBytes(run.map(shownOf)), sizes));
    run = [];
  };
  for (const extent of extents) {
    if (run.at(-1)?.end !== extent.start) end();
    run.push(extent);
  }
  end();
  return pieces;
}

/** Copies them end to end. */
export function joinedBytes(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(parts.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.byteLength;
  }
  return joined;
}

function shownOf({ start, end, layer }: Extent): Uint8Array {
  return layer.bytes?.subarray(start - layer.start, end - layer.start) ?? new Uint8Array();
}

function cut(start: number, bytes: Uint8Array, sizes: FileSizes): WrittenPiece[] {
  const pieces: WrittenPiece[] = [];
  for (let at = 0; at < bytes.byteLength; ) {
    const left = bytes.byteLength - at;
    const isLarge = left >= sizes.largeMin;
    const length = Math.min(left, isLarge ? sizes.object : sizes.row);
    // A copy, so that one piece in memory does not keep the others.
    const own = length === bytes.byteLength ? bytes : bytes.slice(at, at + length);
    pieces.push({ start: start + at, bytes: own, isLarge });
    at += length;
  }
  return pieces;
}
