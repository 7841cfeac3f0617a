/**
 * Group commit on PostgreSQL: requests that arrive while one transaction is being committed are written together in the next one.
 *
 *   open -> open      (the session is lost: connects again, however long it takes, finds out whether the last transaction was committed,
 *                      and repeats it if not; callers wait meanwhile)
 *        -> failed    (the partition was taken over, or a statement failed for good: every later call rejects with `store_failed`)
 *
 * Writes are first tried without savepoints, most groups in one round trip: from `BEGIN` to `COMMIT` nothing waits for an answer, and what is refused
 * fails on the server, which then commits nothing. When one is refused, they are tried again with a savepoint before each, so that only that one is
 * refused. On a full disk they are refused with `disk_full`. Reads are sent beside them (`pg_group_reads.ts`).
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
import { GroupReads } from "./pg_group_reads.ts";
import type { PgPartition } from "./pg_partition.ts";
import type { PgSession } from "./pg_session.ts";
import type { PgTables } from "./pg_tables.ts";

const SENT_AT_ONCE: ReadonlySet<GroupedRequest["kind"]> = new Set(["commitLog", "change", "putTask"]);

interface Committed {
  readonly replies: StoreReply[];
  /** Milliseconds from the begin of the transaction to the last renewal of the lease in it. */
  readonly renewedAfterMs: number;
}

/** Does requests on the tables of a partition. Call `handle` and `renew` one after another. */
export class PgGroupCommit {
  readonly #connection: PgConnection;
  readonly #partition: PgPartition;
  readonly #tables: PgTables;
  readonly #onRenewed: (sinceMs: bigint) => void;
  /** The error of the state `failed`. */
  #fatal: PerigeeError | undefined;
  #isSpaceLow = false;
  #reconnecting: Promise<boolean> | undefined;

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
    for (const group of groupsOf(requests))
      replies.push(...("kind" in group ? [await this.#doAlone(group)] : await this.#do(group)));
    return replies;
  }

  /** Renews the lease while nothing is written. Never rejects: a failure shows at the next call. */
  async renew(): Promise<void> {
    if (this.#fatal === undefined) await this.#commit([], new GroupReads(this.#tables, []));
  }

  async #do(group: readonly GroupedRequest[]): Promise<StoreReply[]> {
    const fatal = this.#fatal;
    if (fatal !== undefined) return group.map(({ id }) => refusal(id, fatal));
    const reads = new GroupReads(this.#tables, group);
    const writes = group.filter((request) => !isRead(request));
    const written = writes.length === 0 ? [] : await this.#write(writes, reads);
    const found = await reads.replies((read) => this.#read(read));
    const replies = new Map([...written, ...found].map((reply) => [reply.id, reply]));
    return group.flatMap(({ id }) => replies.get(id) ?? []);
  }

  async #write(writes: readonly GroupedRequest[], reads: GroupReads): Promise<StoreReply[]> {
    const outputs = new GroupOutputs();
    return outputs.replies(writes, await this.#commit(outputs.write(writes), reads));
  }

  async #commit(writes: readonly GroupedRequest[], reads: GroupReads): Promise<StoreReply[]> {
    try {
      this.#assertUsable();
      const replies = await this.#transaction(writes, reads);
      this.#isSpaceLow = false;
      return replies;
    } catch (error) {
      const failure = this.#note(error, "cannot write to the store");
      if (failure.code === "disk_full") this.#isSpaceLow = true;
      return writes.map(({ id }) => refusal(id, failure));
    }
  }

  /** Tries until all is committed, or fails for a reason that another try does not solve. */
  async #transaction(writes: readonly GroupedRequest[], reads: GroupReads): Promise<StoreReply[]> {
    const done = (): StoreReply[] => writes.map(({ id }) => ({ id, ok: true, value: undefined }));
    let isInDoubt = false; // the session of an attempt was lost: it may still be committed
    for (let isCareful = false; ; ) {
      try {
        const replies = await this.#attempt(writes, reads, isCareful);
        if (replies !== undefined) return replies;
        if (isInDoubt) return done();
      } catch (error) {
        this.#tables.undone();
        const fault = pgFaultOf(error);
        if (fault === "away") {
          isInDoubt = true;
          if (await this.#reconnect()) return done();
          continue;
        }
        await this.#undo();
        if (fault === "again") continue;
        if (isCareful || !hasCode(error, "conflict")) throw error;
        isCareful = true;
      }
    }
  }

  /** Undefined if an earlier transaction turned out to be committed: this one is rolled back. */
  async #attempt(
    writes: readonly GroupedRequest[],
    reads: GroupReads,
    isCareful: boolean,
  ): Promise<StoreReply[] | undefined> {
    const { query, session } = this.#connection;
    const isAtOnce = !isCareful && writes.every(isSentAtOnce);
    if (!isAtOnce) await reads.settled();
    const startedMs = monotonicMs();
    // Waits for all: a statement that is sent after a rollback would be in no transaction.
    const [begun, renewed, committed] = await Promise.allSettled([
      session.script("BEGIN"),
      this.#partition.renew(query),
      isAtOnce ? this.#committedAtOnce(writes, reads) : this.#committedInTurn(writes, reads, isCareful),
    ]);
    if (begun.status === "rejected") throw begun.reason;
    if (renewed.status === "rejected") throw renewed.reason;
    if (!renewed.value) {
      await this.#undo();
      this.#tables.undone();
      return (await this.#partition.wasCommitted(query))
        ? undefined
        : this.#attempt(writes, reads, isCareful);
    }
    if (committed.status === "rejected") throw committed.reason;
    this.#partition.committed();
    this.#onRenewed(startedMs + BigInt(committed.value.renewedAfterMs));
    this.#connection.works();
    return committed.value.replies;
  }

  /** Sends all, and `COMMIT` behind it. */
  async #committedAtOnce(writes: readonly GroupedRequest[], reads: GroupReads): Promise<Committed> {
    let isRefused = false;
    const sent = writes.map((request) => this.#apply(request));
    for (const reply of sent)
      reply.catch(() => {
        isRefused = true;
      });
    await unsentRefused();
    if (isRefused) return { replies: await allDone(sent), renewedAfterMs: 0 };
    const ended = this.#commitEnd(reads);
    const replied = allDone(sent);
    await allDone<unknown>([replied, ended]);
    return { replies: await replied, renewedAfterMs: await ended };
  }

  /** Waits after requests whose statements depend on the answers of others: each wait is a round trip, which may be long. */
  async #committedInTurn(
    writes: readonly GroupedRequest[],
    reads: GroupReads,
    isCareful: boolean,
  ): Promise<Committed> {
    const replies: StoreReply[] = [];
    const sent: Promise<StoreReply>[] = [];
    for (const request of writes) {
      sent.push(isCareful ? this.#applyApart(request) : this.#apply(request));
      if (isCareful || !isSentAtOnce(request)) replies.push(...(await allDone(sent.splice(0))));
    }
    replies.push(...(await allDone(sent)));
    return { replies, renewedAfterMs: await this.#commitEnd(reads) };
  }

  /**
   * The last statements of a transaction: nothing is committed when one before them failed. Resolves with how many milliseconds after its begin the lease
   * was renewed last.
   */
  async #commitEnd(reads: GroupReads): Promise<number> {
    const { query, session } = this.#connection;
    const extended = this.#partition.extend(query);
    const committed = session.commit();
    reads.sendLate();
    await allDone<unknown>([extended, committed]);
    return extended;
  }

  async #apply(request: GroupedRequest): Promise<StoreReply> {
    return { id: request.id, ok: true, value: await doneBy(this.#tables, request) };
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

  #read(read: GroupedRead): Promise<StoreReply> {
    return this.#answered(read.id, "cannot read from the store", () => doneBy(this.#tables, read));
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
      const { session } = this.#connection;
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
          await this.#replaced(session);
        } catch (lasting) {
          return refusal(id, this.#note(lasting, doing));
        }
      }
    }
  }

  /** Replaces a lost session once for all works that found it lost. */
  async #replaced(lost: PgSession): Promise<void> {
    if (lost !== this.#connection.session) return;
    this.#reconnecting ??= this.#reconnect().finally(() => {
      this.#reconnecting = undefined;
    });
    await this.#reconnecting;
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

/** Whether all its statements are sent with the call. */
function isSentAtOnce(request: GroupedRequest): boolean {
  return SENT_AT_ONCE.has(request.kind);
}

/** Resolves when requests of this turn that could not be sent are refused, and before the others of the turn are written. */
async function unsentRefused(): Promise<void> {
  await undefined; // in a promise's turn, the next tick comes after all refusals
  await new Promise<void>((resolve) => process.nextTick(resolve));
}
