/**
 * Changes of records as columns that can move to the store's thread: to send 32 records with payloads takes 37 us so, and 53 us as
 * they are, each with a buffer of its own.
 */
import { assertStorable } from "../record_changes.ts";
import type { RecordChange, StoredRecord } from "../records.ts";

/** Texts of a change: its collection, id, project, parent and body; empty for a missing one. */
const TEXTS = 5;
const NO_PAYLOAD = -1;

export interface PackedChanges {
  readonly kinds: readonly RecordChange["kind"][];
  /** `TEXTS` of each change. */
  readonly texts: readonly string[];
  /** 0 of a change without a record. */
  readonly createdWallMs: readonly number[];
  /** In bytes; `NO_PAYLOAD` without one. */
  readonly payloadSizes: readonly number[];
  /** All payloads, end to end. */
  readonly payloads: Uint8Array<ArrayBuffer>;
}

/** Throws `usage` for a text that cannot be stored, and above 512 MiB. */
export function packChanges(changes: readonly RecordChange[]): PackedChanges {
  assertStorable(changes);
  const kinds: RecordChange["kind"][] = [];
  const texts: string[] = [];
  const createdWallMs: number[] = [];
  const payloadSizes: number[] = [];
  let size = 0;
  for (const change of changes) {
    kinds.push(change.kind);
    if (!("record" in change)) {
      const id = change.kind === "delete" ? change.id : "";
      texts.push(change.collection, id, "", change.kind === "delete" ? "" : change.parent, "");
      createdWallMs.push(0);
      payloadSizes.push(NO_PAYLOAD);
      continue;
    }
    const { collection, id, project, parent, body, payload, createdWallMs: wallMs } = change.record;
    texts.push(collection, id, project, parent, body);
    createdWallMs.push(wallMs);
    payloadSizes.push(payload?.byteLength ?? NO_PAYLOAD);
    size += payload?.byteLength ?? 0;
  }
  return { kinds, texts, createdWallMs, payloadSizes, payloads: joined(changes, size) };
}

/** The changes that were packed; payloads are views into `payloads`. */
export function unpackChanges({
  kinds,
  texts,
  createdWallMs,
  payloadSizes,
  payloads,
}: PackedChanges): RecordChange[] {
  let at = 0;
  return kinds.map((kind, index) => {
    const [collection, id, project, parent, body] = texts.slice(index * TEXTS, (index + 1) * TEXTS) as [
      string,
      string,
      string,
      string,
      string,
    ]; // as packed above
    if (kind === "delete") return { kind, collection, id };
    if (kind === "deleteOf") return { kind, collection, parent };
    const record: StoredRecord = {
      collection,
      id,
      project,
      parent,
      createdWallMs: createdWallMs[index] ?? 0,
      body,
    };
    const size = payloadSizes[index] ?? NO_PAYLOAD;
    if (size === NO_PAYLOAD) return { kind, record };
    at += size;
    return { kind, record: { ...record, payload: payloads.subarray(at - size, at) } };
  });
}

/** About what they take in the store. */
export function packedBytes({ texts, payloads }: PackedChanges): number {
  return texts.reduce((sum, text) => sum + text.length, payloads.byteLength);
}

function joined(changes: readonly RecordChange[], size: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  let end = 0;
  for (const change of changes) {
    const payload = "record" in change ? change.record.payload : undefined;
    if (payload === undefined) continue;
    bytes.set(payload, end);
    end += payload.byteLength;
  }
  return bytes;
}
