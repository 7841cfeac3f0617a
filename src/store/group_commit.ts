/**
 * Group commit: what arrived while one transaction was being synced is written in the next one together.
 *
 *   open -> failed    (a sync or SQLite itself failed: every later call is answered `store_failed`)
 *
 * Writes share one transaction with the reads between them, which see in it what was called before and are answered
 * when it is committed. On a full disk the transaction is undone, the reserve is released (at last in slices) and the same
 * transaction is tried again; when nothing is left to release, its writes are answered `disk_full` and its reads read again
 * without them.
 *
 * Outputs are written before the transaction, and synced while it is committed: two syncs that the disk can do at once.
 * A call whose output cannot be written has no part in the transaction; one whose output cannot be synced is refused.
 *
 * Limits: a transaction takes at most `GROUP_BYTES_MAX` of records and outputs, except a single call that is larger.
 */
import { fdatasync, writeSync } from "node:fs";
import type { PerigeeError } from "../errors.ts";
import type { Reserve } from "./folder/reserve.ts";
import { outputError } from "./outputs.ts";
import { packedBytes, unpackChanges } from "./packed/pack_changes.ts";
import { packedLogBytes } from "./packed/pack_log.ts";
import type {
  LoneRequest,
  PackedOutputs,
  ReadRequest,
  StoreReply,
  StoreRequest,
  WriteRequest,
} from "./packed/requests.ts";
import { EVERY_PROJECT } from "./records.ts";
import { storeFailure } from "./sqlite_failure.ts";
import type { SqliteTables } from "./sqlite_tables.ts";

const GROUP_BYTES_MAX = 8 << 20;

/** A request that does work; closing is the thread's. */
export type WorkRequest = Exclude<StoreRequest, { readonly kind: "close" }>;

type GroupedRead = Exclude<ReadRequest, LoneRequest>;
type GroupedRequest = WriteRequest | GroupedRead;

/** Open files by their number. */
export interface OutputFiles {
  /** Writes all of `bytes` at `position`, or throws the system's error. */
  write(descriptor: number, bytes: Uint8Array, position: number): void;
  /** Resolves with the system's error when it failed. */
  sync(descriptor: number): Promise<unknown>;
}

/** Does requests on tables, in their order, one `handle` after another. Runs on the store's own thread. */
export class GroupCommit {
  readonly #tables: SqliteTables;
  readonly #reserve: Pick<Reserve, "release" | "take">;
  readonly #files: OutputFiles;
  /** Why nothing works any more, once it is so. */
  #fatal: PerigeeError | undefined;

  constructor(
    tables: SqliteTables,
    reserve: Pick<Reserve, "release" | "take">,
    files: OutputFiles = systemFiles,
  ) {
    this.#tables = tables;
    this.#reserve = reserve;
    this.#files = files;
  }

  /** One reply for each request, in the order of the requests. Never rejects. */
  async handle(requests: readonly WorkRequest[]): Promise<StoreReply[]> {
    const replies: StoreReply[] = [];
    let group: GroupedRequest[] = [];
    let groupBytes = 0;
    const commitGroup = async (): Promise<void> => {
      if (group.every(isRead)) replies.push(...group.map((request) => this.#read(request)));
      else replies.push(...(await this.#write(group)));
      group = [];
      groupBytes = 0;
    };
    for (const request of requests) {
      if (isLone(request)) {
        await commitGroup();
        replies.push(this.#doAlone(request));
        continue;
      }
      const bytes = bytesOf(request);
      if (groupBytes + bytes > GROUP_BYTES_MAX) await commitGroup();
      group.push(request);
      groupBytes += bytes;
    }
    await commitGroup();
    // Costs nothing while the reserve is held; after a full disk it is taken again by itself once there is space.
    if (this.#fatal === undefined) this.#reserve.take();
    return replies;
  }

  async #write(group: readonly GroupedRequest[]): Promise<StoreReply[]> {
    const refused = new Map<number, StoreReply>();
    const syncs: Promise<void>[] = [];
    for (const request of group) {
      const { outputs } = request.kind === "append" || request.kind === "commitLog" ? request.packed : {};
      if (outputs === undefined || this.#fatal !== undefined) continue;
      const refuse = (error: PerigeeError): unknown => refused.set(request.id, refusal(request.id, error));
      const failure = this.#writeOutputs(outputs);
      if (failure === undefined) syncs.push(this.#syncOutputs(outputs, refuse));
      else refuse(failure);
    }
    const answered = this.#commit(group.filter((request) => !refused.has(request.id)));
    await Promise.all(syncs);
    const replies = new Map(answered.map((reply) => [reply.id, reply]));
    return group.flatMap((request) => refused.get(request.id) ?? replies.get(request.id) ?? []);
  }

  #writeOutputs(outputs: PackedOutputs): PerigeeError | undefined {
    let start = 0;
    for (const [index, descriptor] of outputs.descriptors.entries()) {
      const end = start + (outputs.sizes[index] ?? 0);
      try {
        this.#files.write(descriptor, outputs.bytes.subarray(start, end), outputs.positions[index] ?? 0);
      } catch (error) {
        return outputError(outputs.taskIds[index] ?? "", "write", error);
      }
      start = end;
    }
    return undefined;
  }

  async #syncOutputs(outputs: PackedOutputs, refuse: (error: PerigeeError) => unknown): Promise<void> {
    const taskOf = new Map(outputs.descriptors.map((file, index) => [file, outputs.taskIds[index] ?? ""]));
    await Promise.all(
      [...taskOf].map(async ([descriptor, taskId]) => {
        const error = await this.#files.sync(descriptor);
        if (error !== undefined) refuse(outputError(taskId, "sync", error));
      }),
    );
  }

  #commit(group: readonly GroupedRequest[]): StoreReply[] {
    if (group.length === 0) return [];
    try {
      this.#assertUsable();
      return this.#transaction(group);
    } catch (error) {
      const failure = this.#note(error, "cannot write to the store");
      return group.map((request) => (isRead(request) ? this.#read(request) : refusal(request.id, failure)));
    }
  }

  #transaction(group: readonly GroupedRequest[]): StoreReply[] {
    for (;;) {
      try {
        return this.#attempt(group);
      } catch (error) {
        if (storeFailure(error, "").code !== "disk_full" || !this.#reserve.release()) throw error;
      }
    }
  }

  #attempt(group: readonly GroupedRequest[]): StoreReply[] {
    try {
      this.#tables.begin();
      const replies = group.map((request) => this.#apply(request));
      this.#tables.commit();
      return replies;
    } catch (error) {
      this.#tables.rollback();
      throw error;
    }
  }

  /** A conflict, or damage that a read finds, is the answer of its own call; the rest of the group continues. */
  #apply(request: GroupedRequest): StoreReply {
    try {
      return { id: request.id, ok: true, value: this.#valueOf(request) };
    } catch (error) {
      const failure = storeFailure(error, "cannot read from the store");
      if (failure.code === (isRead(request) ? "store_damaged" : "conflict"))
        return refusal(request.id, failure);
      throw error;
    }
  }

  #read(request: GroupedRead): StoreReply {
    try {
      this.#assertUsable();
      return { id: request.id, ok: true, value: this.#valueOf(request) };
    } catch (error) {
      return refusal(request.id, this.#note(error, "cannot read from the store"));
    }
  }

  #doAlone({ kind, id }: LoneRequest): StoreReply {
    if (kind === "takeReserve") return this.#takeReserve(id);
    if (kind === "scrub") return this.#scrub(id);
    try {
      this.#assertUsable();
      return { id, ok: true, value: this.#tables.log.open() };
    } catch (error) {
      return refusal(id, this.#note(error, "cannot open the work log"));
    }
  }

  #takeReserve(id: number): StoreReply {
    return this.#fatal === undefined
      ? { id, ok: true, value: this.#reserve.take() }
      : refusal(id, this.#fatal);
  }

  /** A full disk leaves what was deleted where it is; the next time is not far. */
  #scrub(id: number): StoreReply {
    try {
      this.#assertUsable();
      this.#tables.scrub();
      return { id, ok: true, value: undefined };
    } catch (error) {
      return refusal(id, this.#note(error, "cannot clear the store's log"));
    }
  }

  #valueOf(request: GroupedRequest): unknown {
    switch (request.kind) {
      case "append":
        return this.#tables.append(request.packed);
      case "putTask":
        return this.#tables.putTask(request.task);
      case "deleteTask":
        return this.#tables.deleteTask(request.taskId);
      case "change":
        return this.#tables.records.change(unpackChanges(request.packed));
      case "commitLog":
        return this.#tables.log.commit(request.packed);
      case "logEntries":
        return this.#tables.log.entries(request.after);
      case "loggedTask":
        return this.#tables.log.task(request.key);
      case "loggedTasks":
        return this.#tables.log.tasks(request.query);
      case "loggedAnswers":
        return this.#tables.log.answers(request.task, request.from, request.limit);
      case "task":
        return this.#tables.task(request.taskId);
      case "taskByName":
        return this.#tables.taskByName(request.name);
      case "tasks":
        return this.#tables.tasks(request.after, request.limit);
      case "page":
        return this.#tables.page(request.start);
      case "record":
        return this.#tables.records.record(
          request.project ?? EVERY_PROJECT,
          request.collection,
          request.recordId,
        );
      case "records":
        return this.#tables.records.records(request.project ?? EVERY_PROJECT, request.query);
    }
  }

  #assertUsable(): void {
    if (this.#fatal !== undefined) throw this.#fatal;
  }

  #note(error: unknown, doing: string): PerigeeError {
    const failure = storeFailure(error, doing);
    if (failure.code === "store_failed") this.#fatal ??= failure;
    return failure;
  }
}

const systemFiles: OutputFiles = {
  write: (descriptor, bytes, position) => {
    for (let written = 0; written < bytes.byteLength; )
      written += writeSync(descriptor, bytes, written, bytes.byteLength - written, position + written);
  },
  sync: (descriptor) =>
    new Promise((resolve) => {
      fdatasync(descriptor, (error) => resolve(error ?? undefined));
    }),
};

/** The reply that carries an error. */
export function refusal(id: number, error: PerigeeError): StoreReply {
  return { id, ok: false, code: error.code, message: error.message, details: error.details };
}

function isLone(request: WorkRequest): request is LoneRequest {
  return request.kind === "takeReserve" || request.kind === "scrub" || request.kind === "openLog";
}

function isRead(request: GroupedRequest): request is GroupedRead {
  return !["append", "putTask", "deleteTask", "change", "commitLog"].includes(request.kind);
}

/** Bytes of records and outputs that a request brings. */
export function bytesOf(request: WorkRequest): number {
  if (request.kind === "change") return packedBytes(request.packed);
  if (request.kind === "commitLog") return packedLogBytes(request.packed);
  if (request.kind !== "append") return 0;
  return request.packed.bytes.byteLength + (request.packed.outputs?.bytes.byteLength ?? 0);
}
