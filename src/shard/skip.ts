/**
 * Bitmaps of lines to pass over: one bit per line of a block, low bits first.
 */

/** Whether the bit of the line at `index` in the block is set; lines beyond the bitmap are not skipped. */
export function isSkipped(skip: Uint8Array | undefined, index: number): boolean {
  return skip !== undefined && (((skip[index >>> 3] ?? 0) >>> (index & 7)) & 1) === 1;
}

/** Skips all lines but `from` to `to` (exclusive), and those that `skip` skips. */
export function skipOutside(
  lineCount: number,
  from: number,
  to: number,
  skip: Uint8Array | undefined,
): Uint8Array<ArrayBuffer> {
  const bits = new Uint8Array((lineCount + 7) >>> 3);
  if (skip !== undefined) bits.set(skip.subarray(0, bits.length));
  for (let index = 0; index < lineCount; index += 1) {
    if (index < from || index >= to) bits[index >>> 3] = (bits[index >>> 3] as number) | (1 << (index & 7));
  }
  return bits;
}

/** Skips all lines of a block but those with the given numbers. */
export function skipAllBut(
  block: { readonly firstLine: number; readonly lineCount: number },
  lines: Uint32Array,
): Uint8Array<ArrayBuffer> {
  const bits = new Uint8Array((block.lineCount + 7) >>> 3).fill(0xff);
  for (const line of lines) {
    const index = line - block.firstLine;
    bits[index >>> 3] = (bits[index >>> 3] as number) & ~(1 << (index & 7));
  }
  return bits;
}
