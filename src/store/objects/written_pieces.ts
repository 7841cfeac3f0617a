/** How what was written is stored: runs of at least 4 MiB in pieces of at most 8 MiB, the rest in rows of at most 256 KiB. */
import type { Extent } from "./file_extents.ts";

const OBJECT_BYTES = 8 << 20;
const LARGE_BYTES_MIN = 4 << 20;
const ROW_BYTES = 256 << 10;

export interface WrittenPiece {
  readonly start: number;
  readonly bytes: Uint8Array;
  /** Whether it is to be an object. */
  readonly isLarge: boolean;
}

/** `extents` are in memory, in order. */
export function piecesOf(extents: readonly Extent[]): WrittenPiece[] {
  const pieces: WrittenPiece[] = [];
  let run: Extent[] = [];
  const end = (): void => {
    const [first] = run;
    if (first !== undefined) pieces.push(...cut(first.start, joinedBytes(run.map(shownOf))));
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

function cut(start: number, bytes: Uint8Array): WrittenPiece[] {
  const pieces: WrittenPiece[] = [];
  for (let at = 0; at < bytes.byteLength; ) {
    const left = bytes.byteLength - at;
    const isLarge = left >= LARGE_BYTES_MIN;
    const length = Math.min(left, isLarge ? OBJECT_BYTES : ROW_BYTES);
    // Of its own, so that a piece in memory does not keep the others.
    const own = length === bytes.byteLength ? bytes : bytes.slice(at, at + length);
    pieces.push({ start: start + at, bytes: own, isLarge });
    at += length;
  }
  return pieces;
}
