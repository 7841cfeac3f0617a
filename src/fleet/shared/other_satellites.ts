/**
 * Satellites that other partitions of the fleet have registered, for the catalogue of one: each project's are in the partition of its home, and
 * those of communities are for all.
 *
 * Reads only, and each time: a decision is seen by the next call anywhere. The rows themselves are read again only when their count or their
 * checksums have changed. Calls that arrive during a read share the next one.
 */

import type { OtherSatellites } from "../../satellites/kinds/satellite_records.ts";
import { type RecordRow, readRecord } from "../../store/checked_rows.ts";
import type { PgQuery } from "../../store/postgres/pg_session.ts";
import type { StoredRecord } from "../../store/records.ts";

/** By partition, so that the index of records serves it. */
const OTHERS = `
  FROM perigee_partitions p JOIN perigee_records r ON r.part = p.part AND r.collection = 'satellite'
  WHERE p.part <> $1
`;

export class PgOtherSatellites implements OtherSatellites {
  readonly #query: PgQuery;
  readonly #part: number;
  /** What was read last, and the state of the rows then. */
  #last: { readonly state: string; readonly records: readonly StoredRecord[] } = { state: "", records: [] };
  /** The read that is under way, and the one that begins after it. */
  #reads:
    | { readonly now: Promise<readonly StoredRecord[]>; next?: Promise<readonly StoredRecord[]> }
    | undefined;

  constructor(query: PgQuery, part: number) {
    this.#query = query;
    this.#part = part;
  }

  read(): Promise<readonly StoredRecord[]> {
    const reads = this.#reads;
    if (reads === undefined) {
      const now = this.#read().finally(() => {
        this.#reads = undefined;
      });
      this.#reads = { now };
      return now;
    }
    reads.next ??= reads.now.then(
      () => this.read(),
      () => this.read(),
    );
    return reads.next;
  }

  async #read(): Promise<readonly StoredRecord[]> {
    const { rows } = await this.#query(
      `SELECT count(*) || ' ' || coalesce(sum(r.crc), 0) || ' ' || coalesce(max(r.row), 0) AS state ${OTHERS}`,
      this.#part,
    );
    const [{ state }] = rows as [{ readonly state: string }]; // an aggregate has one row
    if (state === this.#last.state) return this.#last.records;
    const found = await this.#query(
      `SELECT r.row, r.collection, r.id, r.project, r.parent, r.created_ms, r.crc, r.body, r.payload_crc, r.payload ${OTHERS}`,
      this.#part,
    );
    const records = (found.rows as RecordRow[]).map(readRecord); // columns as selected
    this.#last = { state, records };
    return records;
  }
}
