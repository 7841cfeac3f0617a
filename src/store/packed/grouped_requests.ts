/**
 * Requests of a store's thread in groups: reads and writes share a transaction, some requests are done alone. And which method of the
 * tables does each.
 */
import type { PerigeeError } from "../../errors.ts";
import type { FileChange } from "../file_rows.ts";
import type { LogCommit, LoggedTaskQuery } from "../log_rows.ts";
import { EVERY_PROJECT, type ProjectScope, type RecordChange, type RecordQuery } from "../records.ts";
import type { StoredTask } from "../store.ts";
import { packedBytes, unpackChanges } from "./pack_changes.ts";
import { packedLogBytes } from "./pack_log.ts";
import type {
  FilesAsked,
  LoneRequest,
  PackedEntries,
  PageStart,
  ReadRequest,
  StoreReply,
  StoreRequest,
  WriteRequest,
} from "./requests.ts";

/** A request that does work; closing is the thread's. */
export type WorkRequest = Exclude<StoreRequest, { readonly kind: "close" }>;

/** A read that may share a transaction. */
export type GroupedRead = Exclude<ReadRequest, LoneRequest>;
/** A request that may share a transaction. */
export type GroupedRequest = WriteRequest | GroupedRead;

const GROUP_BYTES_MAX = 8 << 20;

/** What can be done together, in order: groups of at most 8 MiB, except a single request that is larger, and requests that are done alone. */
export function* groupsOf(
  requests: readonly WorkRequest[],
): Generator<LoneRequest | readonly GroupedRequest[], void, undefined> {
  let group: GroupedRequest[] = [];
  let groupBytes = 0;
  for (const request of requests) {
    const bytes = bytesOf(request);
    if (group.length > 0 && (isLone(request) || groupBytes + bytes > GROUP_BYTES_MAX)) {
      yield group;
      group = [];
      groupBytes = 0;
    }
    if (isLone(request)) yield request;
    else {
      group.push(request);
      groupBytes += bytes;
    }
  }
  if (group.length > 0) yield group;
}

/** Tables of an open store. Each method returns its value, or a promise of it. */
export interface StoreTables {
  append(packed: PackedEntries): unknown;
  putTask(task: StoredTask): unknown;
  deleteTask(id: string): unknown;
  task(id: string): unknown;
  taskByName(name: string): unknown;
  tasks(after: string | undefined, limit: number): unknown;
  page(start: PageStart): unknown;
  readonly records: {
    change(changes: readonly RecordChange[]): unknown;
    record(project: ProjectScope, collection: string, id: string): unknown;
    records(project: ProjectScope, query: RecordQuery): unknown;
  };
  readonly log: {
    commit(commit: Omit<LogCommit, "outputs">): unknown;
    entries(after: number): unknown;
    task(key: string | number): unknown;
    tasks(query: LoggedTaskQuery): unknown;
    answers(task: number, from: number, limit: number): unknown;
  };
  /** Of a store on a database; in a data folder files are files. */
  readonly files?: {
    change(changes: readonly FileChange[]): unknown;
    answer(asked: FilesAsked): unknown;
  };
}

/** What the tables answer to a request; throws what they throw. */
export function doneBy(tables: StoreTables, request: GroupedRequest): unknown {
  switch (request.kind) {
    case "append":
      return tables.append(request.packed);
    case "putTask":
      return tables.putTask(request.task);
    case "deleteTask":
      return tables.deleteTask(request.taskId);
    case "change":
      return tables.records.change(unpackChanges(request.packed));
    case "commitLog":
      return tables.log.commit(request.packed);
    case "changeFiles":
      return tables.files?.change(request.changes);
    case "files":
      return tables.files?.answer(request.asked);
    case "logEntries":
      return tables.log.entries(request.after);
    case "loggedTask":
      return tables.log.task(request.key);
    case "loggedTasks":
      return tables.log.tasks(request.query);
    case "loggedAnswers":
      return tables.log.answers(request.task, request.from, request.limit);
    case "task":
      return tables.task(request.taskId);
    case "taskByName":
      return tables.taskByName(request.name);
    case "tasks":
      return tables.tasks(request.after, request.limit);
    case "page":
      return tables.page(request.start);
    case "record":
      return tables.records.record(request.project ?? EVERY_PROJECT, request.collection, request.recordId);
    case "records":
      return tables.records.records(request.project ?? EVERY_PROJECT, request.query);
  }
}

/** The reply that carries an error. */
export function refusal(id: number, error: PerigeeError): StoreReply {
  return { id, ok: false, code: error.code, message: error.message, details: error.details };
}

function isLone(request: WorkRequest): request is LoneRequest {
  return request.kind === "takeReserve" || request.kind === "scrub" || request.kind === "openLog";
}

/** Whether a request changes nothing. */
export function isRead(request: GroupedRequest): request is GroupedRead {
  return !["append", "putTask", "deleteTask", "change", "commitLog", "changeFiles"].includes(request.kind);
}

/** Bytes of records and outputs that a request brings. */
export function bytesOf(request: WorkRequest): number {
  if (request.kind === "change") return packedBytes(request.packed);
  if (request.kind === "commitLog") return packedLogBytes(request.packed);
  if (request.kind === "changeFiles")
    return request.changes.reduce((sum, one) => sum + (one.kind === "write" ? one.bytes.byteLength : 0), 0);
  if (request.kind !== "append") return 0;
  return request.packed.bytes.byteLength + (request.packed.outputs?.bytes.byteLength ?? 0);
}
