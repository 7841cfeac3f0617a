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
 * Limits: a transaction takes at most 8 MiB of records and outputs, except a single call that is larger.
 */
import type { PerigeeError } from "../errors.ts";
import type { Reserve } from "./folder/reserve.ts";
import { GroupOutputs, type OutputFiles } from "./packed/group_outputs.ts";
import {
  doneBy,
  type GroupedRead,
  type GroupedRequest,
  groupsOf,
  isRead,
  refusal,
  type WorkRequest,
} from "./packed/grouped_requests.ts";
import type { LoneRequest, StoreReply } from "./packed/requests.ts";
import { storeFailure } from "./sqlite_failure.ts";
import type { SqliteTables } from "./sqlite_tables.ts";

/** Does requests on tables, in their order, one `handle` after another. Runs on the store's own thread. */
export class GroupCommit {
  readonly #tables: SqliteTables;
  readonly #reserve: Pick<Reserve, "release" | "take">;
  readonly #files: OutputFiles | undefined;
  /** Why nothing works any more, once it is so. */
  #fatal: PerigeeError | undefined;

  constructor(tables: SqliteTables, reserve: Pick<Reserve, "release" | "take">, files?: OutputFiles) {
    this.#tables = tables;
    this.#reserve = reserve;
    this.#files = files;
  }

  /** One reply for each request, in the order of the requests. Never rejects. */
  async handle(requests: readonly WorkRequest[]): Promise<StoreReply[]> {
    const replies: StoreReply[] = [];
    for (const group of groupsOf(requests)) {
      if ("kind" in group) replies.push(this.#doAlone(group));
      else if (group.every(isRead)) replies.push(...group.map((request) => this.#read(request)));
      else replies.push(...(await this.#write(group)));
    }
    // Costs nothing while the reserve is held; after a full disk it is taken again by itself once there is space.
    if (this.#fatal === undefined) this.#reserve.take();
    return replies;
  }

  async #write(group: readonly GroupedRequest[]): Promise<StoreReply[]> {
    if (this.#fatal !== undefined) return this.#commit(group);
    const outputs = new GroupOutputs(this.#files);
    return outputs.replies(group, this.#commit(outputs.write(group)));
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
      return { id: request.id, ok: true, value: doneBy(this.#tables, request) };
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
      return { id: request.id, ok: true, value: doneBy(this.#tables, request) };
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

  #assertUsable(): void {
    if (this.#fatal !== undefined) throw this.#fatal;
  }

  #note(error: unknown, doing: string): PerigeeError {
    const failure = storeFailure(error, doing);
    if (failure.code === "store_failed") this.#fatal ??= failure;
    return failure;
  }
}
