/**
 * The port for objects: immutable bytes by name, which several processes see.
 *
 *   absent -> stored    (`put`, whole or not at all) -> removed
 */
import type { PerigeeError } from "../../errors.ts";

/** An object as it was listed. */
export interface ListedObject {
  readonly name: string;
  /** Since it was stored, by this machine's clock against that of the place: wrong by as much as they differ. */
  readonly ageMs: number;
}

/**
 * Port. Names are parts of small letters, digits, `-` and `.`, with `/` between them. Calls may overlap. What cannot be reached is tried
 * again, a bucket for about a minute, then rejects with `store_failed`; `disk_full` where the place is full. After `close` nothing is called.
 */
export interface Objects {
  /**
   * Stores an object of some MiB, at least 1 byte, which survives a power cut when it resolves. One of this name with the same bytes is no error, so
   * that a put may be repeated; throws `conflict` for other bytes, which stay.
   */
  put(name: string, bytes: Uint8Array): Promise<void>;
  /** Bytes from `start` on: fewer than `lengthBytes` (at least 1) only at its end. Undefined when it does not exist. */
  get(name: string, start: number, lengthBytes: number): Promise<Uint8Array | undefined>;
  /** No error when it does not exist. */
  remove(name: string): Promise<void>;
  /** Those whose name begins with `prefix`, in no order; one that is stored or removed meanwhile may be missing. */
  list(prefix: string): AsyncIterable<ListedObject>;
  close(): Promise<void>;
}

/** After a put found another object: whether it is the same, for places that do not compare by themselves. */
export async function assertSame(
  objects: Pick<Objects, "get">,
  name: string,
  bytes: Uint8Array,
  conflict: () => PerigeeError,
): Promise<void> {
  const found = await objects.get(name, 0, bytes.byteLength + 1);
  if (found === undefined || Buffer.compare(found, bytes) !== 0) throw conflict();
}
