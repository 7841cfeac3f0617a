/**
 * The port for objects: immutable bytes with a name, which several processes share.
 *
 *   absent -> stored    (`put`, whole or not at all) -> removed
 */
import type { PerigeeError } from "../../errors.ts";

/** An object in a list. */
export interface ListedObject {
  readonly name: string;
  /** Time since it was stored, by this machine's clock against that of the place: wrong by the difference of the two. */
  readonly ageMs: number;
}

/**
 * Port. Names are parts of lower-case letters, digits, `-` and `.`, with `/` between them. Calls may overlap. While the place cannot be reached, rows
 * of the database wait; a bucket is tried for about a minute; a folder is not tried again. Then calls reject with `store_failed`, or with `disk_full`
 * where the place is full. After `close` nothing is called.
 */
export interface Objects {
  /**
   * Stores an object of 1 byte to some MiB, which survives a power cut when it resolves. May be repeated with the same bytes. Throws `conflict` when
   * the name has other bytes, which stay.
   */
  put(name: string, bytes: Uint8Array): Promise<void>;
  /** Reads `lengthBytes`, at least 1, from `start` on; fewer only at the end of the object. Undefined when it does not exist. */
  get(name: string, start: number, lengthBytes: number): Promise<Uint8Array | undefined>;
  /** Removes an object. No error when it does not exist. */
  remove(name: string): Promise<void>;
  /** Objects whose name begins with `prefix`, in no order; one that is stored or removed meanwhile may be missing. */
  list(prefix: string): AsyncIterable<ListedObject>;
  close(): Promise<void>;
}

/** For a put that found an object with its name: throws `conflict()` unless that object has the same bytes. */
export async function assertSame(
  objects: Pick<Objects, "get">,
  name: string,
  bytes: Uint8Array,
  conflict: () => PerigeeError,
): Promise<void> {
  const found = await objects.get(name, 0, bytes.byteLength + 1);
  if (found === undefined || Buffer.compare(found, bytes) !== 0) throw conflict();
}
