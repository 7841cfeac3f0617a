/**
 * Group commit on PostgreSQL: requests that arrive while one transaction is being committed are written together in the next one.
 *
 *   open -> open      (the session is lost: connects again, however long it takes, finds out whether the last transaction was committed,
 *                      and repeats it if not; callers wait meanwhile)
 *        -> failed    (the partition was taken over, or a statement failed for good: every later call rejects with `store_failed`)
 *
 * A group is first tried without savepoints. When one of its calls is refused, the group is rolled back and tried again with a savepoint before each
 * write, so that only that call is refused. On a full disk the writes are refused with `disk_full`, and the reads are repeated.
 *
 * Outputs are written before the transaction, and synced beside it (`packed/group_outputs.ts`).
 */
import { hasCode, type PerigeeError } from "../../errors.ts";
import { GroupOutputs } from "../packed/group_outputs.ts";
import {
  doneBy,
  type GroupedRead,
  type GroupedRequest,
  groupsOf,
  isRead,
  refusal,
  type WorkRequest,
} from "../packed/grouped_requests.ts";
import { monotonicMs } from "../packed/lease.ts";
import type { LoneRequest, StoreReply } from "../packed/requests.ts";
import { allDone } from "./all_done.ts";
import type { PgConnection } from "./pg_connection.ts";
import { pgFailure, pgFaultOf } from "./pg_failure.ts";
import { type PgPartition, RENEW_MS } from "./pg_partition.ts";
import type { PgTables } from "./pg_tables.ts";

const SENT_AT_ONCE: ReadonlySet<GroupedRequest["kind"]> = new Set(["commitLog", "change", "putTask"]);

/** Does requests on the tables of a partition. Call `handle` and `renew` one after another. */
export class PgGroupCommit {
  readonly #connection: PgConnection;
  readonly #partition: PgPartition;
  readonly #tables: PgTables;
  readonly #onRenewed: (sinceMs: bigint) => void;
  /** The error of the state `failed`. */
  #fatal: PerigeeError | undefined;
  #isSpaceLow = false;

  /** `onRenewed` is called when the lease lasts `LEASE_MS` from then on, at least. */
  constructor(
    connection: PgConnection,
    partition: PgPartition,
    tables: PgTables,
    onRenewed: (sinceMs: bigint) => void,
  ) {
    this.#connection = connection;
    this.#partition = partition;
    this.#tables = tables;
    this.#onRenewed = onRenewed;
  }

  /** True from a write that found the disk of the server full until one that did not. */
  get isSpaceLow(): boolean {
    return this.#isSpaceLow;
  }

  /** One reply for each request, in the order of the requests. Never rejects. */
  async handle(requests: readonly WorkRequest[]): Promise<StoreReply[]> {
    const replies: StoreReply[] = [];
    for (const group of groupsOf(requests)) {
      if ("kind" in group) replies.push(await this.#doAlone(group));
      else if (group.every(isRead)) for (const request of group) replies.push(await this.#read(request));
      else replies.push(...(await this.#write(group)));
    }
    return replies;
  }

  /** Renews the lease while nothing is written. Never rejects: a failure shows at the next call. */
  async renew(): Promise<void> {
    if (this.#fatal !== undefined) return;
    await this.#commit([]);
  }

  async #write(group: readonly GroupedRequest[]): Promise<StoreReply[]> {
    if (this.#fatal !== undefined) return this.#commit(group);
    const outputs = new GroupOutputs();
    return outputs.replies(group, await this.#commit(outputs.write(group)));
  }

  async #commit(group: readonly GroupedRequest[]): Promise<StoreReply[]> {
    try {
      this.#assertUsable();
      const replies = await this.#transaction(group);
      this.#isSpaceLow = false;
      return replies;
    } catch (error) {
      const failure = this.#note(error, "cannot write to the store");
      if (failure.code === "disk_full") this.#isSpaceLow = true;
      return Promise.all(
        group.map((request) => (isRead(request) ? this.#read(request) : refusal(request.id, failure))),
      );
    }
  }

  /** Tries until the group is committed, or fails for a reason that another try does not solve. */
  async #transaction(group: readonly GroupedRequest[]): Promise<StoreReply[]> {
    let isInDoubt = false; // the session of an attempt was lost: it may still be committed
    for (let isCareful = false; ; ) {
      try {
        const replies = await this.#attempt(group, isCareful);
        if (replies !== undefined) return replies;
        if (isInDoubt) return await this.#committedBefore(group);
      } catch (error) {
        this.#tables.undone();
        const fault = pgFaultOf(error);
        if (fault === "away") {
          isInDoubt = true;
          if (await this.#reconnect()) return await this.#committedBefore(group);
          continue;
        }
        await this.#undo();
        if (fault === "again") continue;
        if (isCareful || !hasCode(error, "conflict")) throw error;
        isCareful = true;
      }
    }
  }

  /**
   * Undefined if an earlier transaction turned out to be committed: this one is rolled back. The first statements are sent together with those of the
   * requests: two round trips a commit instead of one for each statement. Only the end waits for the lease.
   */
  async #attempt(group: readonly GroupedRequest[], isCareful: boolean): Promise<StoreReply[] | undefined> {
    const { query, session, clock } = this.#connection;
    const startedMs = clock.nowMs();
    let renewedMs = monotonicMs();
    // Waits for all: a statement that is sent after a rollback would be in no transaction.
    const [begun, renewed, applied] = await Promise.allSettled([
      session.script("BEGIN"),
      this.#partition.renew(query),
      this.#applied(group, isCareful),
    ]);
    if (begun.status === "rejected") throw begun.reason;
    if (renewed.status === "rejected") throw renewed.reason;
    if (!renewed.value) {
      await this.#undo();
      this.#tables.undone();
      return (await this.#partition.wasCommitted(query)) ? undefined : this.#attempt(group, isCareful);
    }
    if (applied.status === "rejected") throw applied.reason;
    if (clock.nowMs() - startedMs >= RENEW_MS) {
      renewedMs = monotonicMs();
      await this.#partition.extend(query);
    }
    await session.script("COMMIT");
    this.#partition.committed();
    this.#onRenewed(renewedMs);
    this.#connection.works();
    return applied.value;
  }

  /** Waits only after requests whose statements depend on the answers of others: each wait is a round trip, which may be long. */
  async #applied(group: readonly GroupedRequest[], isCareful: boolean): Promise<StoreReply[]> {
    const replies: StoreReply[] = [];
    const sent: Promise<StoreReply>[] = [];
    for (const request of group) {
      sent.push(isCareful && !isRead(request) ? this.#applyApart(request) : this.#apply(request));
      if (isCareful || !isSentAtOnce(request)) replies.push(...(await allDone(sent.splice(0))));
    }
    return [...replies, ...(await allDone(sent))];
  }

  async #apply(request: GroupedRequest): Promise<StoreReply> {
    try {
      return { id: request.id, ok: true, value: await doneBy(this.#tables, request) };
    } catch (error) {
      if (isRead(request) && hasCode(error, "store_damaged"))
        return refusal(request.id, pgFailure(error, "cannot read from the store"));
      throw error;
    }
  }

  async #applyApart(request: GroupedRequest): Promise<StoreReply> {
    const { session } = this.#connection;
    await session.script("SAVEPOINT one");
    try {
      const reply = await this.#apply(request);
      await session.script("RELEASE SAVEPOINT one");
      return reply;
    } catch (error) {
      if (!hasCode(error, "conflict")) throw error;
      await session.script("ROLLBACK TO SAVEPOINT one");
      this.#tables.undone();
      return refusal(request.id, pgFailure(error, "cannot write to the store"));
    }
  }

  /** Replies for a group that was committed and whose answer was lost; its reads are repeated. */
  async #committedBefore(group: readonly GroupedRequest[]): Promise<StoreReply[]> {
    const replies: StoreReply[] = [];
    for (const request of group)
      replies.push(
        isRead(request) ? await this.#read(request) : { id: request.id, ok: true, value: undefined },
      );
    return replies;
  }

  async #read(request: GroupedRead): Promise<StoreReply> {
    return this.#answered(request.id, "cannot read from the store", () => doneBy(this.#tables, request));
  }

  async #doAlone({ kind, id }: LoneRequest): Promise<StoreReply> {
    // PostgreSQL's vacuum removes what was deleted; a reserve of space is for a disk of this machine.
    if (kind !== "openLog")
      return { id, ok: true, value: kind === "takeReserve" ? !this.#isSpaceLow : undefined };
    return this.#answered(id, "cannot open the work log", () => this.#tables.log.open());
  }

  /** Works outside a transaction, and repeats the work when the session was lost or the server asks for it. */
  async #answered(id: number, doing: string, work: () => unknown): Promise<StoreReply> {
    for (;;) {
      try {
        this.#assertUsable();
        const value = await work();
        this.#connection.works();
        return { id, ok: true, value };
      } catch (error) {
        try {
          const fault = pgFaultOf(error);
          if (fault === "again") continue;
          if (fault !== "away") return refusal(id, this.#note(error, doing));
          await this.#reconnect();
        } catch (lasting) {
          return refusal(id, this.#note(lasting, doing));
        }
      }
    }
  }

  /** Resolves with whether the last transaction was committed. */
  async #reconnect(): Promise<boolean> {
    for (;;) {
      await this.#connection.reconnect();
      try {
        return await this.#partition.wasCommitted(this.#connection.query);
      } catch (error) {
        if (pgFaultOf(error) !== "away") throw error;
      }
    }
  }

  async #undo(): Promise<void> {
    try {
      await this.#connection.session.script("ROLLBACK");
    } catch {
      // The server rolls back when a session is lost, and the next statement fails.
    }
  }

  #assertUsable(): void {
    if (this.#fatal !== undefined) throw this.#fatal;
  }

  #note(error: unknown, doing: string): PerigeeError {
    const failure = pgFailure(error, doing);
    if (failure.code === "store_failed") this.#fatal ??= failure;
    return failure;
  }
}

/** Whether its statements are sent with the call. Reads may send more later: what they find may be of any moment of the transaction. */
function isSentAtOnce(request: GroupedRequest): boolean {
  return isRead(request) || SENT_AT_ONCE.has(request.kind);
}
