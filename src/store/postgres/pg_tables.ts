/** The tables of one partition, on one connection. */
import type { StoreTables } from "../packed/grouped_requests.ts";
import { PgJournal } from "./pg_journal.ts";
import { PgLog } from "./pg_log.ts";
import { PgRecords } from "./pg_records.ts";
import type { PgQuery } from "./pg_session.ts";

/** One for a store. */
export class PgTables extends PgJournal implements StoreTables {
  readonly records: PgRecords;
  readonly log: PgLog;

  constructor(query: PgQuery, part: number) {
    super(query, part);
    this.records = new PgRecords(query, part);
    this.log = new PgLog(query, part);
  }
}
