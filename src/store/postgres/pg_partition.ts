/**
 * The partition of a process, held by a lease on the database's clock: one owner at a time.
 *
 *   free -> held        (`take`: the former lease has ended; the epoch rises)
 *   held -> held        (`renew`, in every transaction, and every 1.5 s)
 *        -> lost        (another owner has taken it: this one can commit nothing more)
 *        -> free        (`release`)
 *
 * A transaction begins with `renew`, which locks the row: another process that takes the partition over waits until the transaction has ended, and
 * a later transaction of the former owner finds another epoch. So a process that was stopped and wakes up commits nothing. `commits` counts the
 * transactions. It shows after a lost session whether the last transaction was committed, even if that happens later: a commit waits for a standby
 * as long as that is away.
 */
import { errorCodeOf } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import type { PgQuery } from "./pg_session.ts";

/** How long a lease lasts without renewal. Short, so that the partition of a dead owner is taken over within 10 s. */
export const LEASE_MS = 6_000;
/** How often an owner renews its lease. */
export const RENEW_MS = 1_500;
/** Fails in a transaction whose partition is not as its owner has left it, so that a `COMMIT` sent with it commits nothing. */
const RENEW = `
  WITH renewed AS (
    UPDATE perigee_partitions SET commits = commits + 1, lease_until = clock_timestamp() + $4 * interval '1 ms'
    WHERE part = $1 AND epoch = $2 AND commits = $3 RETURNING part
  )
  SELECT CASE count(*) WHEN 1 THEN 1 ELSE ('the partition was taken over, owners left: ' || count(*))::integer END FROM renewed
`;
/** invalid_text_representation: what `RENEW` fails with. */
const TAKEN = "22P02";

/** One for a store. */
export class PgPartition {
  readonly #part: number;
  readonly #owner: string;
  #epoch = 0;
  #commits = 0;

  /** `owner`: a text for people, such as a host and a process; in a fleet the id of a worker, which other workers read. */
  constructor(part: number, owner: string) {
    this.#part = part;
    this.#owner = owner;
  }

  get part(): number {
    return this.#part;
  }

  /** The epoch of this owner; 0 before `take`. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Takes the partition, and makes it if it does not exist. Throws `data_dir_in_use` while another owner holds it. */
  async take(query: PgQuery): Promise<void> {
    await query("INSERT INTO perigee_partitions (part) VALUES ($1) ON CONFLICT DO NOTHING", this.#part);
    const { rows } = await query(
      `UPDATE perigee_partitions SET epoch = epoch + 1, owner = $2,
         lease_until = clock_timestamp() + $3 * interval '1 ms'
       WHERE part = $1 AND lease_until < clock_timestamp() RETURNING epoch, commits`,
      this.#part,
      this.#owner,
      LEASE_MS,
    );
    const [row] = rows as { readonly epoch: number; readonly commits: number }[]; // as returned
    if (row === undefined) throw await this.#inUse(query);
    this.#epoch = row.epoch;
    this.#commits = row.commits;
  }

  /**
   * Call it at the start of a transaction. Resolves with false if the row is not as this owner has left it: the transaction has failed then; roll it
   * back, and ask `wasCommitted`.
   */
  async renew(query: PgQuery): Promise<boolean> {
    try {
      await query(RENEW, this.#part, this.#epoch, this.#commits, LEASE_MS);
      return true;
    } catch (error) {
      if (errorCodeOf(error) === TAKEN) return false;
      throw error;
    }
  }

  /**
   * Call it at the end of a transaction: renews the lease once more where the transaction took long, because of its size, a lock or a slow disk. Until
   * its commit the others see the lease that was committed before; a process that waits for the row then finds this one. Resolves with how many
   * milliseconds after the begin of the transaction that was, 0 without it.
   */
  async extend(query: PgQuery): Promise<number> {
    const { rows } = await query(
      `UPDATE perigee_partitions SET lease_until = clock_timestamp() + $2 * interval '1 ms'
       WHERE part = $1 AND clock_timestamp() > transaction_timestamp() + $3 * interval '1 ms'
       RETURNING (extract(epoch FROM clock_timestamp() - transaction_timestamp()) * 1000)::int AS "afterMs"`,
      this.#part,
      LEASE_MS,
      RENEW_MS,
    );
    const [row] = rows as { readonly afterMs: number }[]; // as returned
    return row?.afterMs ?? 0;
  }

  /** Call it after the transaction that `renew` began was committed. */
  committed(): void {
    this.#commits += 1;
  }

  /**
   * After a lost session: resolves with whether the transaction that `renew` began was committed, and counts it if so: it may have been under way when
   * the session was lost, and `renew` has waited for its end. Throws `store_failed` when the partition has another owner.
   */
  async wasCommitted(query: PgQuery): Promise<boolean> {
    const { rows } = await query(
      "SELECT commits FROM perigee_partitions WHERE part = $1 AND epoch = $2",
      this.#part,
      this.#epoch,
    );
    const [row] = rows as { readonly commits: number }[]; // as selected
    if (row === undefined) throw this.#takenOver();
    const wasCommitted = row.commits > this.#commits;
    this.#commits = row.commits;
    return wasCommitted;
  }

  /** Ends the lease. No error when another owner has taken the partition. */
  async release(query: PgQuery): Promise<void> {
    await query(
      "UPDATE perigee_partitions SET lease_until = '-infinity' WHERE part = $1 AND epoch = $2",
      this.#part,
      this.#epoch,
    );
  }

  async #inUse(query: PgQuery): Promise<PerigeeError> {
    const { rows } = await query("SELECT owner FROM perigee_partitions WHERE part = $1", this.#part);
    const [row] = rows as { readonly owner: string }[]; // as selected
    return new PerigeeError(
      "data_dir_in_use",
      `partition ${this.#part} of the store is held by ${row?.owner ?? "another process"}; when that process is dead, it is free within ${LEASE_MS / 1_000} seconds`,
      { details: { part: this.#part, owner: row?.owner ?? "" } },
    );
  }

  #takenOver(): PerigeeError {
    return new PerigeeError(
      "store_failed",
      `partition ${this.#part} of the store was taken over by another process, because this one did not renew its lease for ${LEASE_MS / 1_000} seconds`,
      { details: { part: this.#part } },
    );
  }
}
