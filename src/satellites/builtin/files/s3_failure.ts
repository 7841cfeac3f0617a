/**
 * What the S3 SDK rejects with, as failures of attempts. Messages carry the store's code, never its texts or headers.
 */
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { shown } from "./external_store.ts";

/** Of the answer; undefined without one. */
export function statusOf(error: unknown): number | undefined {
  const status = property(property(error, "$metadata"), "httpStatusCode");
  return typeof status === "number" ? status : undefined;
}

/**
 * Reading and writing the same bytes again does no harm, so what passes by itself is `refused`, and repeated until the deadline;
 * what may be this object's own fault is `ambiguous`, and repeated some times.
 */
export function s3Failure(error: unknown, path: string): unknown {
  if (error instanceof SatelliteError) return error;
  const cause = property(error, "cause");
  if (cause instanceof SatelliteError) return cause;
  const status = statusOf(error);
  const code = codeOf(error);
  const what = `the store refused ${shown(path)}: ${code}${status === undefined ? "" : ` (${status})`}`;
  if (status === undefined) {
    // Of the network, by the system or the SDK; others are not of the store.
    const isLost = typeof property(error, "code") === "string" || property(error, "name") === "TimeoutError";
    if (!isLost) return error;
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

/** Such as `NoSuchBucket`; nothing that could be a text. */
function codeOf(error: unknown): string {
  const name = property(error, "name");
  return typeof name === "string" && /^\w{1,64}$/.test(name) ? name : "Error";
}

function property(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
