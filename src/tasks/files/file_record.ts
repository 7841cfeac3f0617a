/**
 * Files as records: what is stored of a file beside its bytes, which stand in a file of their own.
 *
 *   collection `file`         body: the rest of `FileView`; parent: its purpose, to list by
 *   collection `file_index`   payload: where every 1,000th item begins; apart, so that lists do not carry it. None for `user_data`
 */
import type { RecordChange, StoredRecord } from "../../store/records.ts";
import type { FileIndex, FileView } from "./files.ts";
import type { ItemIndex } from "./item_index.ts";

export const FILES = "file";
export const FILE_INDEXES = "file_index";

/** What `file_index` holds of a file. */
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

/** Of the records alone; the bytes are removed after them. */
export function fileDeletes(id: string): RecordChange[] {
  return [
    { kind: "delete", collection: FILES, id },
    { kind: "delete", collection: FILE_INDEXES, id },
  ];
}

/** A record that `fileInserts` made, as it is shown. */
export function viewOf(record: StoredRecord): FileView {
  const { id, project, createdWallMs, parent } = record;
  // Written by `fileInserts`.
  const body = JSON.parse(record.body) as Omit<FileView, "id" | "project" | "createdWallMs" | "purpose">;
  return { id, project, createdWallMs, purpose: parent as FileView["purpose"], ...body };
}

/** Where every 1,000th item begins, by the index that `fileInserts` made. */
export function placesOf(record: StoredRecord): ItemPlaces {
  const payload = record.payload ?? new Uint8Array(0);
  const numbers = [...new Float64Array(payload.slice().buffer)]; // a copy of its own begins at a multiple of 8
  const half = numbers.length / 2;
  const { lineCount } = JSON.parse(record.body) as Pick<ItemPlaces, "lineCount">; // written by `fileInserts`
  return { lineCount, lines: numbers.slice(0, half), offsets: numbers.slice(half) };
}

/** Line numbers, then offsets, as doubles in this machine's order of bytes: folders do not move between such. */
function bytesOf(index: ItemIndex): Uint8Array {
  return new Uint8Array(Float64Array.of(...index.lines, ...index.offsets).buffer);
}
