/**
 * Part of a store on a database: the files of a partition as rows. A file is a name, a size and segments; where segments overlap, the
 * one with the higher sequence counts, and what no segment covers is 0. `objects/partition_disk.ts` makes a `Disk` of them.
 *
 *   segment    inline (its bytes are in its row) -> replaced by one whose bytes are an object -> removed
 */

/** A file without its segments. */
export interface FileRow {
  /** Unique in its partition, also among files that were removed. */
  readonly id: number;
  readonly sizeBytes: number;
  /** Unix time of the last change, whole milliseconds. */
  readonly modifiedMs: number;
  /** Rises with each change. */
  readonly version: number;
}

/** Where bytes of a file are stored. */
export interface SegmentRow {
  /** Unique in its file; from 1. */
  readonly sequence: number;
  /** Its first byte in the file. */
  readonly start: number;
  /** Bytes that count: fewer than are stored where the file was cut. */
  readonly shownBytes: number;
  readonly storedBytes: number;
  /** Of what is stored, as `blockSums` makes them. */
  readonly sums: Uint8Array;
  /** The object that holds its bytes; undefined: they are in the row. */
  readonly object: string | undefined;
}

/** A segment to add. `shownBytes` are all of it. */
export type NewSegment = Omit<SegmentRow, "shownBytes">;

/** Bytes of a row: from an offset into what is stored. */
export interface WantedBytes {
  readonly sequence: number;
  readonly offset: number;
  readonly lengthBytes: number;
}

export type FileChange =
  /** Replaces nothing: the name is free. */
  | { readonly kind: "make"; readonly id: number; readonly path: string; readonly modifiedMs: number }
  /** The new name is free. */
  | { readonly kind: "rename"; readonly id: number; readonly path: string }
  /** With its segments. */
  | { readonly kind: "remove"; readonly id: number }
  | WriteChange;

/** In the order of its members. */
export interface WriteChange {
  readonly kind: "write";
  readonly id: number;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  /** Segments end here at the latest, those that begin later are removed; undefined: none is cut. */
  readonly cutTo: number | undefined;
  /** Sequences of segments to remove. */
  readonly removed: readonly number[];
  readonly added: readonly NewSegment[];
  /** The bytes of those that are added without an object, end to end. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Names begin so when the file was removed or replaced while it was open: nobody opens it any more. */
export const REMOVED_FOLDER = "//removed/";

/** Who changes files. */
export interface FilesOwner {
  /** Number of the partition. */
  readonly part: number;
  /** Higher than those of all owners before. */
  readonly epoch: number;
}

/**
 * Port. Changes take effect in the order of their calls, each in one transaction under the fence of the partition, beginning in the turn
 * of the call; they reject as the writes of `Store`. Reads see the changes that were called before.
 */
export interface FileRows {
  owner(): Promise<FilesOwner>;
  /** All of them happen, or none. */
  change(changes: readonly FileChange[]): Promise<void>;
  file(path: string): Promise<FileRow | undefined>;
  /** In the order of their sequences, after one; at most `SEGMENT_PAGE`. */
  segments(id: number, after: number): Promise<readonly SegmentRow[]>;
  /** Undefined for a segment that does not exist or has no bytes in its row; fewer bytes than wanted where it is shorter. */
  bytes(id: number, wanted: readonly WantedBytes[]): Promise<readonly (Uint8Array | undefined)[]>;
  /** Names of files whose path is `<folder>/<name>`; an empty folder is that above all others. */
  names(folder: string): Promise<readonly string[]>;
  /** Those of the objects that segments name, of all partitions. */
  named(objects: readonly string[]): Promise<readonly string[]>;
}

/** Segments that are read at once. */
export const SEGMENT_PAGE = 1_000;
