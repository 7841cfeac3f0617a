/**
 * What the S3 SDK rejects with, as failures of attempts. Messages carry the store's code, never its texts or headers.
 */
import { codeOf, isConnectionLost, propertyOf, statusOf } from "../../../s3/s3_errors.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { shown } from "./external_store.ts";

/**
 * Reading and writing the same bytes again does no harm, so what passes by itself is `refused`, and repeated until the deadline;
 * what may be this object's own fault is `ambiguous`, and repeated some times.
 */
export function s3Failure(error: unknown, path: string): unknown {
  if (error instanceof SatelliteError) return error;
  const cause = propertyOf(error, "cause");
  if (cause instanceof SatelliteError) return cause;
  const status = statusOf(error);
  const code = codeOf(error);
  const what = `the store refused ${shown(path)}: ${code}${status === undefined ? "" : ` (${status})`}`;
  if (status === undefined) {
    if (!isConnectionLost(error)) return error; // not of the store
    return new SatelliteError("refused", "connection_lost", "the connection to the store was lost", {
      cause: error,
    });
  }
  if (status === 401 || status === 403) return new SatelliteError("permanent", "access_denied", what);
  if (status === 404) return new SatelliteError("permanent", "not_found", what);
  if (status === 412) return new SatelliteError("ambiguous", "source_changed", what);
  if (status === 429 || status >= 500) return new SatelliteError("refused", "store_busy", what);
  return new SatelliteError("permanent", "store_refused", what);
}
