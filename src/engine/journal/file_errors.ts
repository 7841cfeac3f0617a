/**
 * What the system says of a file, as errors that a caller can act on. Faults of perigee stay what they are.
 */
import { errorCodeOf, isNoSpace } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";

/** The failure that a file's error means; errors of our own stay what they are. */
export function asFailure(error: unknown): PerigeeError {
  if (error instanceof PerigeeError) return error;
  const code = errorCodeOf(error) ?? "unknown error";
  return isNoSpace(code)
    ? new PerigeeError("disk_full", "no space left on the disk; free some and run the same command again", {
        cause: error,
      })
    : new PerigeeError("output_unwritable", `the output could not be written or synced (${code})`, {
        cause: error,
      });
}

/** What the system says of a file becomes an error that a caller can act on; faults of perigee stay what they are. */
export function rethrowFileError(error: unknown): never {
  throw isFileError(error) ? asFailure(error) : error;
}

/** The same for a file that is an input. */
export function rethrowReadError(error: unknown): never {
  if (!isFileError(error)) throw error;
  throw new PerigeeError("input_unreadable", `the input cannot be read any more (${errorCodeOf(error)})`, {
    cause: error,
  });
}

/** The system's codes look like `ENOSPC`, Node's own like `ERR_INVALID_ARG_TYPE`. */
function isFileError(error: unknown): boolean {
  return /^E[A-Z0-9]+$/.test(errorCodeOf(error) ?? "");
}
