/**
 * Changes of records on their way into a store: checked and copied, so that a record which a store takes can be read
 * back from it, and shares no bytes with its caller's.
 *
 * Limit: a call takes at most 512 MiB; SQLite holds at most 1,000,000,000 bytes in a row.
 */
import assert from "node:assert";
import { PerigeeError } from "../errors.ts";
import type { RecordChange, StoredRecord } from "./records.ts";

const CALL_BYTES_MAX = 512 << 20;

/** SQLite's text ends at a NUL when it is read back, and half a surrogate pair has no UTF-8. */
const NOT_STORABLE = /[\0\p{Surrogate}]/u;

/** Whether a store can hold the text: nothing is found by another one. */
export function isStorable(text: string): boolean {
  return !NOT_STORABLE.test(text);
}

/** Throws `usage` for a text that cannot be stored, and above 512 MiB. */
export function assertStorable(changes: readonly RecordChange[]): void {
  let bytes = 0;
  for (const change of changes) {
    if (!("record" in change)) continue;
    const { collection, id, project, parent, body, payload, createdWallMs } = change.record;
    assert(Number.isSafeInteger(createdWallMs), "a record's createdWallMs is in whole milliseconds");
    for (const text of [collection, id, project, parent, body])
      if (!isStorable(text))
        throw new PerigeeError("usage", `a ${collection} has a NUL or half a surrogate pair in its texts`);
    bytes += body.length + (payload?.byteLength ?? 0);
    if (bytes > CALL_BYTES_MAX)
      throw new PerigeeError("usage", `change takes at most ${CALL_BYTES_MAX} bytes, got more`);
  }
}

/** Throws as `assertStorable` does. */
export function copyChanges(changes: readonly RecordChange[]): RecordChange[] {
  assertStorable(changes);
  return changes.map((change) =>
    "record" in change ? { kind: change.kind, record: copyRecord(change.record) } : change,
  );
}

/** With a payload in a buffer of its own. Not by `slice`, which returns another view when the payload is Node's `Buffer`. */
export function copyRecord(record: StoredRecord): StoredRecord {
  return record.payload === undefined
    ? { ...record }
    : { ...record, payload: new Uint8Array(record.payload) };
}

/** The refusal of a record whose id is in use. */
export function idTaken({ collection, id }: StoredRecord): PerigeeError {
  return new PerigeeError("conflict", `there is a ${collection} ${JSON.stringify(id)} already`);
}
