/**
 * Rows as the tables of a store hold them, with their checksums, and the checks of what is read back. They do not depend on the database:
 * the stores of SQLite and PostgreSQL keep the same columns.
 *
 * Every row carries a CRC-32 over all that it says, and one over its text or payload, which can go before the rest. What does not
 * pass is `store_damaged` with its place, never left out.
 */
import { crc32 } from "node:zlib";
import { PerigeeError } from "../errors.ts";
import type { LoggedAnswer, LoggedTask, StoredLogEntry } from "./log_rows.ts";
import type { EntryPage, PageStart } from "./packed/requests.ts";
import type { StoredRecord } from "./records.ts";
import type { StoredEntry, StoredTask } from "./store.ts";

/** What an operator does about damage. */
export const DAMAGE_ADVICE =
  "restore the data folder or the database from a backup, or move it away and run again: whole lines of the output file are kept";

/** `store_damaged` for a row that does not pass its own checks. */
export function damaged(what: string, details: Readonly<Record<string, unknown>>): PerigeeError {
  return new PerigeeError("store_damaged", `${what}; ${DAMAGE_ADVICE}`, { details });
}

/** A task. In rows, `row` is the order of creation, times are Unix milliseconds, and a `crc` is a CRC-32. */
export interface TaskRow {
  readonly row: number;
  readonly id: string;
  readonly name: string;
  readonly created_ms: number;
  readonly crc: number;
  readonly body: string;
}

/** A journal entry of a task. */
export interface EntryRow {
  readonly row: number;
  readonly task_id: string;
  readonly sequence: number;
  readonly wall_ms: number;
  readonly crc: number;
  readonly records: Uint8Array;
}

/** A task of the work log; `request` is null where it is spent or erased, and in lists. */
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

/** An answer of the work log; `text` is null where it is erased. */
export interface AnswerRow {
  readonly item: number;
  readonly crc: number;
  readonly record: Uint8Array;
  readonly text_crc: number | null;
  readonly text: Uint8Array | null;
}

/** A record; `payload` may be null for one of no bytes, `payload_crc` for one without a payload. */
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

/** A task as its row says; throws `store_damaged`. */
export function readTask(row: TaskRow): StoredTask {
  const task = { id: row.id, name: row.name, createdWallMs: row.created_ms, body: row.body };
  if (taskRowCrc(task) === row.crc) return task;
  throw damaged(`task ${task.id} does not match its checksum`, { taskId: task.id });
}

/** Throws `store_damaged`. */
function readEntry(row: EntryRow): StoredEntry {
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

/** A page of journal entries, as selected from `start`, and where the next one begins. Throws `store_damaged` at the first bad one. */
export function entryPage(rows: readonly EntryRow[], start: PageStart, hasMore: boolean): EntryPage {
  const { taskId } = start;
  const entries = rows.map(readEntry);
  if (taskId !== undefined) checkSequences(entries, start.afterSequence);
  const last = rows.at(-1);
  if (last === undefined || !hasMore) return { entries, next: undefined };
  const next =
    taskId === undefined ? { taskId, beforeRow: last.row } : { taskId, afterSequence: last.sequence };
  return { entries, next };
}

function checkSequences(entries: readonly StoredEntry[], after: number): void {
  for (const [index, entry] of entries.entries()) {
    const expected = after + index + 1;
    if (entry.sequence === expected) continue;
    throw damaged(`journal entry ${expected} of task ${entry.taskId} is missing`, {
      taskId: entry.taskId,
      sequence: expected,
    });
  }
}

/** A task of the work log as its row says; throws `store_damaged`. */
export function readLoggedTask(row: LoggedTaskRow): LoggedTask {
  const { number, id, project, kind, parent, body, request_crc: requestCrc } = row;
  const task = { number, id, project, kind, parent, createdWallMs: row.created_ms, body };
  const request = row.request ?? new Uint8Array();
  const isRow = taskCrc(task) === row.crc && bodyCrc(number, body) === row.body_crc;
  if (!isRow || (requestCrc !== null && payloadCrc(request) !== requestCrc))
    throw damaged(`task ${number} of the work log does not match its checksum`, { task: number });
  return requestCrc === null ? task : { ...task, request };
}

/** An answer to an item of a task, as its row says; throws `store_damaged`. */
export function readAnswer(task: number, row: AnswerRow): LoggedAnswer {
  const { item, record, text_crc: textCrc } = row;
  const text = row.text ?? new Uint8Array();
  if (answerCrc(task, item, record) !== row.crc || (textCrc !== null && payloadCrc(text) !== textCrc))
    throw damaged(`the answer of item ${item} of task ${task} does not match its checksum`, { task, item });
  return textCrc === null ? { item, record } : { item, record, text };
}

/** CRC-32 of the columns of a logged task that never change. */
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

/** CRC-32 of the text of a logged task, which changes while its other columns do not. */
export function bodyCrc(number: number, body: string): number {
  return crc32(`${number}\n${body}`);
}

/** CRC-32 of an entry of the work log. */
export function entryCrc(sequence: number, records: Uint8Array): number {
  return crc32(records, crc32(`${sequence}\n`));
}

/** CRC-32 of an answer, all but its text. */
export function answerCrc(task: number, item: number, record: Uint8Array): number {
  return crc32(`${task}\n${item}\n`, payloadCrc(record));
}

/** A record as its row says; throws `store_damaged`. */
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

/** CRC-32 of a record, all but its payload. */
export function recordCrc(record: StoredRecord): number {
  const { collection, id, project, parent, createdWallMs, body } = record;
  return crc32(body, crc32(`${collection}\n${id}\n${project}\n${parent}\n${createdWallMs}\n`));
}

/** CRC-32 of bytes; 0 for none, where zlib may see no buffer at all. */
export function payloadCrc(payload: Uint8Array): number {
  return payload.byteLength === 0 ? 0 : crc32(payload);
}

/** CRC-32 of a task. */
export function taskRowCrc(task: StoredTask): number {
  return crc32(JSON.stringify([task.id, task.name, task.createdWallMs, task.body]));
}

/** CRC-32 of a journal entry. The records first: of empty ones zlib may see no buffer at all, and then forgets the value to continue from. */
export function entryRowCrc(entry: StoredEntry): number {
  return crc32(`${entry.taskId}\n${entry.sequence}\n${entry.wallMs}\n`, crc32(entry.records));
}

/** Entries of the work log after a sequence. Throws `store_damaged` for one that is missing or does not match. */
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

/** The work log's names, in the order of their numbers. Throws as `readLogEntries` does. */
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

/** CRC-32 of a name of the work log and its number. */
export function nameCrc(number: number, text: string): number {
  return crc32(`${number}\n${text}`);
}
