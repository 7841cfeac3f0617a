/**
 * Entries in batches of a bounded count and size. The same entries always make the same batches, so that a repeat finds the one
 * that was under way.
 */
import type { BatchBounds } from "./receiver.ts";
import type { SourcedEntry } from "./source.ts";

/** What surrounds an entry in any receiver's format, at most. */
const AROUND_BYTES = 300;

/** Batches hold at least one entry. */
export async function* batchesOf(
  entries: AsyncIterable<SourcedEntry> | Iterable<SourcedEntry>,
  { entries: entriesMax, bytes: bytesMax }: Pick<BatchBounds, "entries" | "bytes">,
): AsyncGenerator<readonly SourcedEntry[]> {
  let batch: SourcedEntry[] = [];
  let bytes = 0;
  for await (const one of entries) {
    const more = bytesOf(one);
    if (batch.length > 0 && (batch.length >= entriesMax || bytes + more > bytesMax)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(one);
    bytes += more;
  }
  if (batch.length > 0) yield batch;
}

function bytesOf({ entry: { message, attributes } }: SourcedEntry): number {
  return Buffer.byteLength(JSON.stringify([message, attributes])) + AROUND_BYTES;
}
