/**
 * Files as records: what is stored of a file apart from its bytes, which have their own file.
 *
 *   collection `file`         body: the rest of `FileView`; parent: its purpose, to list by
 *   collection `file_index`   payload: offset of every 1,000th item; separate, so that lists do not carry it. Absent for `user_data`
 */
import type { RecordChange, StoredRecord } from "../../store/records.ts";
import type { FileIndex, FileView } from "./files.ts";
import type { ItemIndex } from "./item_index.ts";

export const FILES = "file";
export const FILE_INDEXES = "file_index";

/** The part of the index that `file_index` stores. */
export type ItemPlaces = Pick<FileIndex, "lineCount" | "lines" | "offsets">;

/** Both records of a new file, or the one of a file without lines. */
export function fileInserts(view: FileView, index: ItemIndex | undefined): RecordChange[] {
  const { id, project, createdWallMs, purpose, ...body } = view;
  const place = { id, project, createdWallMs };
  const record = { ...place, collection: FILES, parent: purpose, body: JSON.stringify(body) };
  if (index === undefined) return [{ kind: "insert", record }];
  const payload = bytesOf(index);
  const indexRecord = {
    ...place,
    collection: FILE_INDEXES,
    parent: id,
    body: JSON.stringify({ lineCount: index.lineCount }),
    payload,
  };
  return [
    { kind: "insert", record },
    { kind: "insert", record: indexRecord },
  ];
}

/** Deletes only the records; the bytes are removed after them. */
export function fileDeletes(id: string): RecordChange[] {
  return [
    { kind: "delete", collection: FILES, id },
    { kind: "delete", collection: FILE_INDEXES, id },
  ];
}

/** The view of a record that `fileInserts` made. */
export function viewOf(record: StoredRecord): FileView {
  const { id, project, createdWallMs, parent } = record;
  // Written by `fileInserts`.
  const body = JSON.parse(record.body) as Omit<FileView, "id" | "project" | "createdWallMs" | "purpose">;
  return { id, project, createdWallMs, purpose: parent as FileView["purpose"], ...body };
}

/** The offset of every 1,000th item, from the index that `fileInserts` made. */
export function placesOf(record: StoredRecord): ItemPlaces {
  const payload = record.payload ?? new Uint8Array(0);
  const numbers = [...new Float64Array(payload.slice().buffer)]; // a copy starts at a multiple of 8
  const half = numbers.length / 2;
  const { lineCount } = JSON.parse(record.body) as Pick<ItemPlaces, "lineCount">; // written by `fileInserts`
  return { lineCount, lines: numbers.slice(0, half), offsets: numbers.slice(half) };
}

/** Line numbers, then offsets, as doubles in this machine's byte order: data folders do not move to machines with another. */
function bytesOf(index: ItemIndex): Uint8Array {
  return new Uint8Array(Float64Array.of(...index.lines, ...index.offsets).buffer);
}
