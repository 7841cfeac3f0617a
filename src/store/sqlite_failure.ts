/**
 * What an error of SQLite or of the file system means for the store.
 *
 *   disk_full      no space: what was begun is rolled back, the call may be repeated
 *   store_failed   the disk or SQLite failed in a way after which the state of the files is unknown; final
 *   store_damaged  the files do not hold what was written
 *
 * An fsync that failed is never `disk_full`, for any reason that it has: Linux marks the pages clean, so a second
 * fsync succeeds without having written them (https://lwn.net/Articles/752063/).
 */
import { errorCodeOf } from "../disk.ts";
import { type ErrorCode, messageOf, PerigeeError } from "../errors.ts";
import { DAMAGE_ADVICE } from "./checked_rows.ts";

/** SQLite's result codes that the store distinguishes (https://sqlite.org/rescode.html). */
const SQLITE = { busy: 5, ioError: 10, corrupt: 11, full: 13, notADatabase: 26 } as const;
const IO_ERROR_FSYNC = 1034;
const IO_ERROR_DIR_FSYNC = 1290;
/** `ENOSPC` and `EDQUOT` of Linux, as the package reports them beside a failed write. */
const NO_SPACE_ERRNO: readonly number[] = [28, 122];

/** The `PerigeeError` for anything thrown while the store was at work; one that is one already stays as it is. */
export function storeFailure(error: unknown, doing: string): PerigeeError {
  if (error instanceof PerigeeError) return error;
  const code = codeOf(error);
  const message = messageOf(error);
  const advice = code === "store_damaged" ? `; ${DAMAGE_ADVICE}` : "";
  return new PerigeeError(code, `${doing}: ${message}${advice}`, { cause: error });
}

/** Whether SQLite could not have a lock. */
export function isBusy(error: unknown): boolean {
  return (numberAt(error, "errcode") & 0xff) === SQLITE.busy;
}

/** Whether a unique column holds the value already. */
export function isUniqueViolation(error: unknown): boolean {
  return numberAt(error, "errcode") === 2067;
}

function codeOf(error: unknown): ErrorCode {
  const system = errorCodeOf(error);
  if (system === "ENOSPC" || system === "EDQUOT") return "disk_full";
  const extended = numberAt(error, "errcode");
  switch (extended & 0xff) {
    case SQLITE.full:
      return "disk_full";
    case SQLITE.ioError: {
      const isSync = extended === IO_ERROR_FSYNC || extended === IO_ERROR_DIR_FSYNC;
      return !isSync && NO_SPACE_ERRNO.includes(numberAt(error, "systemErrno"))
        ? "disk_full"
        : "store_failed";
    }
    case SQLITE.corrupt:
    case SQLITE.notADatabase:
      return "store_damaged";
    default:
      return "store_failed";
  }
}

function numberAt(error: unknown, name: string): number {
  if (typeof error !== "object" || error === null) return 0;
  const value: unknown = Reflect.get(error, name);
  return typeof value === "number" ? value : 0;
}
