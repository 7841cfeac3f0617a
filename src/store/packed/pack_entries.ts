/**
 * Journal entries and their outputs as columns and buffers that can move to the store's thread.
 */
import assert from "node:assert";
import { PerigeeError } from "../../errors.ts";
import { allocate, isShared } from "../../large_bytes.ts";
import type { OwnedOutput } from "../outputs.ts";
import type { JournalEntry } from "../store.ts";
import type { PackedEntries, PackedOutputs } from "./requests.ts";

/** SQLite holds at most 1,000,000,000 bytes in a row. */
export const CALL_BYTES_MAX: number = 512 << 20;

/** Copies the records of all entries end to end. Throws `usage` above 512 MiB. */
export function pack(entries: readonly JournalEntry[], outputs: PackedOutputs | undefined): PackedEntries {
  for (const entry of entries)
    assert(Number.isSafeInteger(entry.wallMs), "an entry's wallMs is in whole milliseconds");
  return {
    taskIds: entries.map((entry) => entry.taskId),
    wallMs: entries.map((entry) => entry.wallMs),
    sizes: entries.map((entry) => entry.records.byteLength),
    bytes: joined(entries.map((entry) => entry.records)),
    outputs,
  };
}

/** The outputs end to end: copies, but of a single one in shared memory. Undefined without any, or if one is not a file of the system. */
export function packOutputs(entries: readonly OwnedOutput[]): PackedOutputs | undefined {
  const taskIds: string[] = [];
  const descriptors: number[] = [];
  const positions: number[] = [];
  const parts: Uint8Array[] = [];
  for (const { taskId, output } of entries) {
    if (output === undefined) continue;
    const { descriptor } = output.file;
    if (descriptor === undefined) return undefined;
    taskIds.push(taskId);
    descriptors.push(descriptor);
    positions.push(output.position);
    parts.push(output.bytes);
  }
  const [first] = parts;
  if (first === undefined) return undefined;
  const sizes = parts.map((part) => part.byteLength);
  const bytes = parts.length === 1 && isShared(first.buffer) ? first : joined(parts);
  return { taskIds, descriptors, positions, sizes, bytes };
}

/** What moves of the outputs. */
export function buffersOfOutputs(outputs: PackedOutputs | undefined): ArrayBuffer[] {
  return outputs === undefined || isShared(outputs.bytes.buffer) ? [] : [outputs.bytes.buffer];
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const total = parts.reduce((sum, part) => sum + part.byteLength, 0);
  if (total > CALL_BYTES_MAX)
    throw new PerigeeError("usage", `append takes at most ${CALL_BYTES_MAX} bytes, got ${total}`);
  const bytes = new Uint8Array(allocate(total).buffer);
  let end = 0;
  for (const part of parts) {
    bytes.set(part, end);
    end += part.byteLength;
  }
  return bytes;
}
