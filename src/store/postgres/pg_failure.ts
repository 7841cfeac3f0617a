/**
 * What an error of PostgreSQL, or of the connection to it, means for the store.
 *
 *   away       the session is lost, or the server takes no writes now: connect again, however long that takes
 *   again      the server rolled back the transaction because of another one: begin it again
 *   conflict   a unique column holds the value already
 *   full       no space on the server's disk: the transaction is rolled back, the call may be repeated
 *   refused    the server does not admit this user, or has no such database: the operator must act
 *   failed     anything else, and errors of the program itself, such as for a row that is not JSON: final
 *
 * Codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
import { AssertionError } from "node:assert";
import { errorCodeOf } from "../../disk.ts";
import { messageOf, PerigeeError } from "../../errors.ts";

/** See above. */
export type PgFault = "away" | "again" | "conflict" | "full" | "refused" | "failed";

/** Five digits or capitals; errors of the system and of `pg` itself have other codes, or none. */
const SQLSTATE = /^[0-9A-Z]{5}$/;

const FAULTS: Readonly<Record<string, PgFault>> = {
  "23505": "conflict", // unique_violation
  "25P03": "away", // idle_in_transaction_session_timeout
  "25006": "away", // read_only_sql_transaction: a standby that is not yet the primary
  "3D000": "refused", // invalid_catalog_name
  "3F000": "refused", // invalid_schema_name
  "40000": "again", // transaction_rollback
  "40001": "again", // serialization_failure
  "40P01": "again", // deadlock_detected
  "42501": "refused", // insufficient_privilege
  "53100": "full", // disk_full
  "53200": "away", // out_of_memory
  "53300": "away", // too_many_connections
  "55P03": "again", // lock_not_available: a time-out that a pooler sets
  "57014": "again", // query_canceled: by an operator, or such a time-out
  "57P01": "away", // admin_shutdown
  "57P02": "away", // crash_shutdown
  "57P03": "away", // cannot_connect_now
};

/** Errors that would occur again on another session. */
const OF_PROGRAM = [PerigeeError, AssertionError, TypeError, RangeError, SyntaxError, ReferenceError];

/** The fault of an error. An error of `pg` without a code of the server is a lost session: `pg` has no code for that. */
export function pgFaultOf(error: unknown): PgFault {
  const code = errorCodeOf(error);
  if (code === undefined || !SQLSTATE.test(code))
    return OF_PROGRAM.some((each) => error instanceof each) ? "failed" : "away";
  const known = FAULTS[code];
  if (known !== undefined) return known;
  if (code.startsWith("08")) return "away"; // connection_exception
  return code.startsWith("28") ? "refused" : "failed"; // invalid_authorization_specification
}

/** The `PerigeeError` for anything thrown while the store worked: `disk_full`, `usage` or `store_failed`. A `PerigeeError` is returned unchanged. */
export function pgFailure(error: unknown, doing: string): PerigeeError {
  if (error instanceof PerigeeError) return error;
  const fault = pgFaultOf(error);
  const message = messageOf(error);
  if (fault === "full")
    return new PerigeeError("disk_full", `${doing}: the disk of PostgreSQL is full (${message})`, {
      cause: error,
    });
  if (fault === "refused") return new PerigeeError("usage", `${doing}: ${message}`, { cause: error });
  return new PerigeeError("store_failed", `${doing}: ${message}`, { cause: error });
}
