/**
 * Some items of a measured block.
 */
import { ANSWER_KEY_BYTES } from "../work/answer_key.ts";
import type { MeasuredBlock, RequestKeys } from "./measured.ts";

/** The block with only these of its items, in their order. */
export function pickItems(measured: MeasuredBlock, kept: readonly number[]): MeasuredBlock {
  const keys = pickBytes(measured.keys, measured.keyEnds, kept);
  const bodies = pickBytes(measured.bodies, measured.bodyEnds, kept);
  const { requests } = measured;
  return {
    ...measured,
    count: kept.length,
    lines: Uint32Array.from(kept, (item) => measured.lines[item] as number),
    offsets: Float64Array.from(kept, (item) => measured.offsets[item] as number),
    lengths: Uint32Array.from(kept, (item) => measured.lengths[item] as number),
    inputTokens: Uint32Array.from(kept, (item) => measured.inputTokens[item] as number),
    maxOutputTokens: Uint32Array.from(kept, (item) => measured.maxOutputTokens[item] as number),
    most: Uint32Array.from(kept.flatMap((item) => [...measured.most.subarray(2 * item, 2 * item + 2)])),
    groupOf: Uint16Array.from(kept, (item) => measured.groupOf[item] as number),
    warnings: Uint16Array.from(kept, (item) => measured.warnings[item] as number),
    keys: keys.bytes,
    keyEnds: keys.ends,
    bodies: bodies.bytes,
    bodyEnds: bodies.ends,
    ...(requests === undefined ? {} : { requests: pickRequests(requests, kept) }),
  };
}

/** Those of some of a block's items, in their order. */
export function pickRequests({ keys, areCertain }: RequestKeys, kept: readonly number[]): RequestKeys {
  const picked = new Uint8Array(ANSWER_KEY_BYTES * kept.length);
  for (const [index, item] of kept.entries()) {
    const from = ANSWER_KEY_BYTES * item;
    picked.set(keys.subarray(from, from + ANSWER_KEY_BYTES), ANSWER_KEY_BYTES * index);
  }
  return { keys: picked, areCertain: Uint8Array.from(kept, (item) => areCertain[item] as number) };
}

function pickBytes(
  bytes: Uint8Array,
  ends: Uint32Array,
  kept: readonly number[],
): { readonly bytes: Uint8Array<ArrayBuffer>; readonly ends: Uint32Array<ArrayBuffer> } {
  const pieces = kept.map((item) => bytes.subarray(startOf(ends, item), ends[item]));
  let end = 0;
  const pickedEnds = Uint32Array.from(pieces, (piece) => {
    end += piece.byteLength;
    return end;
  });
  const picked = new Uint8Array(end);
  pieces.forEach((piece, index) => {
    picked.set(piece, startOf(pickedEnds, index));
  });
  return { bytes: picked, ends: pickedEnds };
}

function startOf(ends: Uint32Array, item: number): number {
  return item === 0 ? 0 : (ends[item - 1] as number);
}
