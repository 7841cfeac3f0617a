/**
 * What is thrown for a satellite that is not there, and for a field of one that is wrong.
 */
import { PerigeeError } from "../../errors.ts";

/** The same for one that is another's, so that nobody learns of those. */
export function noSatellite(): PerigeeError {
  return new PerigeeError("not_found", "no such satellite");
}

/** `param` is the field's path, with dots. */
export function fieldFault(param: string, message: string): PerigeeError {
  return new PerigeeError("invalid_request", `${param}: ${message}`, { details: { param } });
}
