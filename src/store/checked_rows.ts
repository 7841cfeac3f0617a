/**
 * Rows as the tables of a store hold them, with their checksums, and the checks of what is read back. Of no database: the stores of
 * SQLite and PostgreSQL keep the same columns.
 *
 * Every row carries a CRC-32 over all that it says, and one over its text or payload, which can go before the rest. What does not
 * pass is `store_damaged` with its place, never left out.
 */
import { crc32 } from "node:zlib";
import { PerigeeError } from "../errors.ts";
import type { LoggedAnswer, LoggedTask, StoredLogEntry } from "./log_rows.ts";
import type { StoredRecord } from "./records.ts";
import type { StoredEntry, StoredTask } from "./store.ts";

/** What an operator does about damage. */
export const DAMAGE_ADVICE =
  "restore the data folder or the database from a backup, or move it away and run again: whole lines of the output file are kept";

/** `store_damaged` for a row that does not pass its own checks. */
export function damaged(what: string, details: Readonly<Record<string, unknown>>): PerigeeError {
  return new PerigeeError("store_damaged", `${what}; ${DAMAGE_ADVICE}`, { details });
}

export interface TaskRow {
  readonly row: number;
  readonly id: string;
  readonly name: string;
  readonly created_ms: number;
  readonly crc: number;
  readonly body: string;
}

export interface EntryRow {
  readonly row: number;
  readonly task_id: string;
  readonly sequence: number;
  readonly wall_ms: number;
  readonly crc: number;
  readonly records: Uint8Array;
}

export interface LoggedTaskRow {
  readonly number: number;
  readonly id: string;
  readonly project: number;
  readonly kind: number;
  readonly parent: string;
  readonly created_ms: number;
  readonly crc: number;
  readonly body_crc: number;
  readonly body: string;
  readonly request_crc: number | null;
  readonly request: Uint8Array | null;
}

export interface AnswerRow {
  readonly item: number;
  readonly crc: number;
  readonly record: Uint8Array;
  readonly text_crc: number | null;
  readonly text: Uint8Array | null;
}

export interface RecordRow {
  readonly row: number;
  readonly collection: string;
  readonly id: string;
  readonly project: string;
  readonly parent: string;
  readonly created_ms: number;
  readonly crc: number;
  readonly body: string;
  readonly payload_crc: number | null;
  readonly payload: Uint8Array | null;
}

export function readTask(row: TaskRow): StoredTask {
  const task = { id: row.id, name: row.name, createdWallMs: row.created_ms, body: row.body };
  if (taskRowCrc(task) === row.crc) return task;
  throw damaged(`task ${task.id} does not match its checksum`, { taskId: task.id });
}

export function readEntry(row: EntryRow): StoredEntry {
  const entry = {
    taskId: row.task_id,
    sequence: row.sequence,
    wallMs: row.wall_ms,
    records: row.records,
  };
  if (entryRowCrc(entry) === row.crc) return entry;
  throw damaged(`journal entry ${entry.sequence} of task ${entry.taskId} does not match its checksum`, {
    taskId: entry.taskId,
    sequence: entry.sequence,
  });
}

export function checkSequences(entries: readonly StoredEntry[], after: number): void {
  for (const [index, entry] of entries.entries()) {
    const expected = after + index + 1;
    if (entry.sequence === expected) continue;
    throw damaged(`journal entry ${expected} of task ${entry.taskId} is missing`, {
      taskId: entry.taskId,
      sequence: expected,
    });
  }
}

export function readLoggedTask(row: LoggedTaskRow): LoggedTask {
  const { number, id, project, kind, parent, body, request_crc: requestCrc } = row;
  const task = { number, id, project, kind, parent, createdWallMs: row.created_ms, body };
  const request = row.request ?? new Uint8Array();
  const isRow = taskCrc(task) === row.crc && bodyCrc(number, body) === row.body_crc;
  if (!isRow || (requestCrc !== null && payloadCrc(request) !== requestCrc))
    throw damaged(`task ${number} of the work log does not match its checksum`, { task: number });
  return requestCrc === null ? task : { ...task, request };
}

export function readAnswer(task: number, row: AnswerRow): LoggedAnswer {
  const { item, record, text_crc: textCrc } = row;
  const text = row.text ?? new Uint8Array();
  if (answerCrc(task, item, record) !== row.crc || (textCrc !== null && payloadCrc(text) !== textCrc))
    throw damaged(`the answer of item ${item} of task ${task} does not match its checksum`, { task, item });
  return textCrc === null ? { item, record } : { item, record, text };
}

/** Of what never changes of it. */
export function taskCrc({
  number,
  id,
  project,
  kind,
  parent,
  createdWallMs,
}: Omit<LoggedTask, "body">): number {
  return crc32(`${number}\n${id}\n${project}\n${kind}\n${parent}\n${createdWallMs}`);
}

export function bodyCrc(number: number, body: string): number {
  return crc32(`${number}\n${body}`);
}

export function entryCrc(sequence: number, records: Uint8Array): number {
  return crc32(records, crc32(`${sequence}\n`));
}

export function answerCrc(task: number, item: number, record: Uint8Array): number {
  return crc32(`${task}\n${item}\n`, payloadCrc(record));
}

export function readRecord(row: RecordRow): StoredRecord {
  const record: StoredRecord = {
    collection: row.collection,
    id: row.id,
    project: row.project,
    parent: row.parent,
    createdWallMs: row.created_ms,
    body: row.body,
    ...(row.payload_crc === null ? {} : { payload: row.payload ?? new Uint8Array() }),
  };
  const isWhole =
    recordCrc(record) === row.crc &&
    (record.payload === undefined || payloadCrc(record.payload) === row.payload_crc);
  if (isWhole) return record;
  throw damaged(`${record.collection} ${record.id} does not match its checksum`, {
    collection: record.collection,
    id: record.id,
  });
}

export function recordCrc(record: StoredRecord): number {
  const { collection, id, project, parent, createdWallMs, body } = record;
  return crc32(body, crc32(`${collection}\n${id}\n${project}\n${parent}\n${createdWallMs}\n`));
}

/** Not of empty bytes: zlib may see no buffer there at all. */
export function payloadCrc(payload: Uint8Array): number {
  return payload.byteLength === 0 ? 0 : crc32(payload);
}

export function taskRowCrc(task: StoredTask): number {
  return crc32(JSON.stringify([task.id, task.name, task.createdWallMs, task.body]));
}

/** The records first: of empty ones zlib may see no buffer at all, and then forgets the value to continue from. */
export function entryRowCrc(entry: StoredEntry): number {
  return crc32(`${entry.taskId}\n${entry.sequence}\n${entry.wallMs}\n`, crc32(entry.records));
}

/** Entries of the work log behind a sequence, without a gap. */
export function readLogEntries(
  rows: readonly (StoredLogEntry & { readonly crc: number })[],
  after: number,
): StoredLogEntry[] {
  return rows.map(({ sequence, crc, records }, index) => {
    const expected = after === 0 ? (rows[0]?.sequence ?? 0) + index : after + 1 + index;
    if (sequence !== expected)
      throw damaged(`entry ${expected} of the work log is missing`, { sequence: expected });
    if (entryCrc(sequence, records) !== crc)
      throw damaged(`entry ${sequence} of the work log does not match its checksum`, { sequence });
    return { sequence, records };
  });
}

/** The work log's names, in the order of their numbers. */
export function readNames(
  rows: readonly { readonly number: number; readonly crc: number; readonly text: string }[],
): string[] {
  return rows.map(({ number, crc, text }, index) => {
    if (number === index + 1 && nameCrc(number, text) === crc) return text;
    throw damaged(`name ${index + 1} of the work log is missing or does not match its checksum`, {
      number: index + 1,
    });
  });
}

export function nameCrc(number: number, text: string): number {
  return crc32(`${number}\n${text}`);
}
