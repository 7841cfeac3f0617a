/**
 * Group commit: what arrived while one transaction was being synced goes into the next one together.
 *
 *   open -> failed    (a sync or SQLite itself failed: every later call is answered `store_failed`)
 *
 * Writes that stand next to each other share one transaction; reads between them see what was called before. On a full
 * disk the transaction is undone, the reserve is given back and the same transaction is tried once more; if that does
 * not help, its calls are answered `disk_full`.
 *
 * Limits: a transaction takes at most `GROUP_BYTES_MAX` of records, except a single call that is larger.
 */
import { PerigeeError } from "../errors.ts";
import type { ReadRequest, StoreReply, StoreRequest, WriteRequest } from "./requests.ts";
import type { Reserve } from "./reserve.ts";
import { storeFailure } from "./sqlite_failure.ts";
import type { SqliteTables } from "./sqlite_tables.ts";

const GROUP_BYTES_MAX = 8 << 20;

/** A request that does work; closing is the thread's. */
export type WorkRequest = Exclude<StoreRequest, { readonly kind: "close" }>;

/** Does requests on tables, in their order. Synchronous; runs on the store's own thread. */
export class GroupCommit {
  readonly #tables: SqliteTables;
  readonly #reserve: Pick<Reserve, "release" | "take">;
  /** Why nothing works any more, once it is so. */
  #fatal: PerigeeError | undefined;

  constructor(tables: SqliteTables, reserve: Pick<Reserve, "release" | "take">) {
    this.#tables = tables;
    this.#reserve = reserve;
  }

  /** One reply for each request, in the order of the requests. Never throws. */
  handle(requests: readonly WorkRequest[]): StoreReply[] {
    const replies: StoreReply[] = [];
    let group: WriteRequest[] = [];
    let groupBytes = 0;
    const commitGroup = (): void => {
      if (group.length > 0) replies.push(...this.#write(group));
      group = [];
      groupBytes = 0;
    };
    for (const request of requests) {
      if (isRead(request)) {
        commitGroup();
        replies.push(this.#read(request));
        continue;
      }
      const bytes = request.kind === "append" ? request.packed.bytes.byteLength : 0;
      if (groupBytes + bytes > GROUP_BYTES_MAX) commitGroup();
      group.push(request);
      groupBytes += bytes;
    }
    commitGroup();
    // Costs nothing while the reserve is held; after a full disk it comes back by itself once there is room.
    if (this.#fatal === undefined) this.#reserve.take();
    return replies;
  }

  #write(group: readonly WriteRequest[]): StoreReply[] {
    try {
      this.#assertUsable();
      return this.#transaction(group);
    } catch (error) {
      const failure = this.#note(error, "cannot write to the store");
      return group.map((request) => refusal(request.id, failure));
    }
  }

  #transaction(group: readonly WriteRequest[]): StoreReply[] {
    try {
      return this.#attempt(group);
    } catch (error) {
      if (storeFailure(error, "").code !== "disk_full" || !this.#reserve.release()) throw error;
      return this.#attempt(group);
    }
  }

  #attempt(group: readonly WriteRequest[]): StoreReply[] {
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

  /** A conflict is the answer of its own call; the rest of the group goes on. */
  #apply(request: WriteRequest): StoreReply {
    try {
      if (request.kind === "append") this.#tables.append(request.packed);
      else if (request.kind === "putTask") this.#tables.putTask(request.task);
      else this.#tables.deleteTask(request.taskId);
      return { id: request.id, ok: true, value: undefined };
    } catch (error) {
      if (error instanceof PerigeeError && error.code === "conflict") return refusal(request.id, error);
      throw error;
    }
  }

  #read(request: ReadRequest): StoreReply {
    try {
      this.#assertUsable();
      return { id: request.id, ok: true, value: this.#valueOf(request) };
    } catch (error) {
      return refusal(request.id, this.#note(error, "cannot read from the store"));
    }
  }

  #valueOf(request: ReadRequest): unknown {
    switch (request.kind) {
      case "task":
        return this.#tables.task(request.taskId);
      case "taskByName":
        return this.#tables.taskByName(request.name);
      case "tasks":
        return this.#tables.tasks(request.after, request.limit);
      case "page":
        return this.#tables.page(request.start);
      case "takeReserve":
        return this.#reserve.take();
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

/** The reply that carries an error. */
export function refusal(id: number, error: PerigeeError): StoreReply {
  return { id, ok: false, code: error.code, message: error.message, details: error.details };
}

function isRead(request: WorkRequest): request is ReadRequest {
  return request.kind !== "append" && request.kind !== "putTask" && request.kind !== "deleteTask";
}
