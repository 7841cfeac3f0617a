/** The tables of one partition, on one connection. */
import type { StoreTables } from "../packed/grouped_requests.ts";
import { PgFiles } from "./pg_files.ts";
import { PgJournal } from "./pg_journal.ts";
import { PgLog } from "./pg_log.ts";
import type { PgPartition } from "./pg_partition.ts";
import { PgRecords } from "./pg_records.ts";
import type { PgQuery } from "./pg_session.ts";

/** The tables of a store. Not for concurrent use, like their connection. */
export class PgTables extends PgJournal implements StoreTables {
  readonly records: PgRecords;
  readonly log: PgLog;
  readonly files: PgFiles;

  constructor(query: PgQuery, partition: PgPartition) {
    super(query, partition.part);
    this.records = new PgRecords(query, partition.part);
    this.log = new PgLog(query, partition.part);
    this.files = new PgFiles(query, partition.part, () => partition.epoch);
  }
}
