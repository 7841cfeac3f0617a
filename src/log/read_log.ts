/**
 * Reads the work log when it is opened: all entries that are left, in order. Nothing is left out: an entry that is missing,
 * damaged, or of another version refuses the log.
 *
 * What a sync that lied leaves to see: tasks have rows in the same commit as their records, so rows of tasks that no entry
 * speaks of mean that the end of the log is lost.
 */
import { PerigeeError } from "../errors.ts";
import type { LogStore } from "../store/log_rows.ts";
import { LaneMemory } from "./lane_memory.ts";
import { LogCut, type LogCutOptions } from "./log_cut.ts";
import { LogNames } from "./log_names.ts";
import { OpenWork } from "./open_work.ts";
import { type EntryHeader, eachRecord, readHeader } from "./records.ts";

/** A line that a last write brought. */
export interface UnsureLine {
  readonly item: number;
  readonly textBytes: number;
  readonly textCrc32: number;
}

/**
 * The bytes of an output that the last entry speaks of: written before it and synced beside it, so that after a power cut they may not
 * be there although it is. The code that opens the output compares their checksum, and reopens the items of lines that are not whole.
 */
export interface UnsureWrite {
  readonly task: number;
  readonly start: number;
  readonly end: number;
  readonly crc32: number;
  /** In the order of their bytes. */
  readonly lines: readonly UnsureLine[];
}

/** How far a log is. */
export interface LogPlace {
  /** Of the last entry; 0 before the first. */
  sequence: number;
  firstSequence: number;
  nextTask: number;
}

/** A log as read. */
export interface ReadLog {
  readonly work: OpenWork;
  readonly names: LogNames;
  readonly cut: LogCut;
  readonly place: LogPlace;
  readonly unsure: readonly UnsureWrite[];
  readonly notes: readonly string[];
}

/** Throws `store_damaged`, `data_dir_newer`, `data_dir_older`. */
export async function readLog(store: LogStore, options: LogCutOptions): Promise<ReadLog> {
  const { names, lastTask, notes } = await store.openLog();
  const work = new OpenWork(new LaneMemory());
  const cut = new LogCut(options);
  const place: LogPlace = { sequence: 0, firstSequence: 1, nextTask: 1 };
  let last: { readonly header: EntryHeader; readonly records: Uint8Array } | undefined;
  for await (const { sequence, records } of store.logEntries()) {
    const header = readHeader(records);
    if (last === undefined) place.firstSequence = sequence;
    work.advance(header.moment);
    eachRecord(records, (record) => work.apply(record, sequence));
    cut.committed(work, records.byteLength, 0);
    place.sequence = sequence;
    last = { header, records };
  }
  if (last !== undefined) {
    place.nextTask = last.header.nextTask;
    if (place.firstSequence > last.header.firstSequence)
      throw damagedLog(`entries ${last.header.firstSequence} to ${place.firstSequence - 1} are missing`);
  }
  const namesMin = last?.header.names ?? 0;
  if (names.length < namesMin) throw damagedLog(`it has ${names.length} names, of ${namesMin}`);
  if (lastTask >= place.nextTask) throw damagedLog(`it ends before task ${lastTask}, which has a row`);
  return {
    work,
    names: new LogNames(names),
    cut,
    place,
    unsure: last === undefined ? [] : writesOf(last.records),
    notes,
  };
}

function writesOf(records: Uint8Array): UnsureWrite[] {
  const lines = new Map<number, UnsureLine[]>();
  const writes: UnsureWrite[] = [];
  eachRecord(records, (record) => {
    if (record.is === "moved" || (record.is === "outcome" && record.isLine === 1)) {
      const { task, item, textBytes, textCrc32 } = record;
      const known = lines.get(task);
      if (known === undefined) lines.set(task, [{ item, textBytes, textCrc32 }]);
      else known.push({ item, textBytes, textCrc32 });
    } else if (record.is === "wrote") {
      const { task, start, end, crc32 } = record;
      writes.push({ task, start, end, crc32, lines: lines.get(task) ?? [] });
    }
  });
  return writes;
}

function damagedLog(message: string): PerigeeError {
  return new PerigeeError(
    "store_damaged",
    `the work log is damaged: ${message}; restore the data folder from a copy`,
  );
}
