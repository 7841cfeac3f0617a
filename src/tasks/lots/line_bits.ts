/**
 * A set of lines as text: its bit table, compressed. A million lines take at most 170 kB, and a few kB if they are few or contiguous.
 */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { LineSet } from "../../work/line_set.ts";

/** Packs the lines 1 to `count`. */
export function packLines(lines: LineSet, count: number): string {
  const table = lines.slice(1, count) ?? new Uint8Array(0);
  return deflateRawSync(table).toString("base64");
}

/** Reads the result of `packLines`. */
export function unpackLines(text: string): LineSet {
  const lines = new LineSet();
  for (const [index, bits] of inflateRawSync(Buffer.from(text, "base64")).entries())
    for (let bit = 0; bits >>> bit !== 0; bit += 1) if ((bits >>> bit) & 1) lines.add(index * 8 + bit + 1);
  return lines;
}
