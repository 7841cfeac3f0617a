/**
 * The bytes of one line of an input.
 */
import type { DiskFile } from "../../disk.ts";

/** A spool may return fewer bytes than requested. */
export async function readWhole(
  input: Pick<DiskFile, "read">,
  offset: number,
  lengthBytes: number,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(lengthBytes);
  let filled = 0;
  while (filled < lengthBytes) {
    const length = await input.read(bytes.subarray(filled), offset + filled);
    if (length === 0) break;
    filled += length;
  }
  return bytes.subarray(0, filled);
}
