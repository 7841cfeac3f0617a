/**
 * `defineSatellite`: a satellite with its types inferred from its schemas.
 */
import { PerigeeError } from "../errors.ts";
import type { JsonObject } from "../work/json.ts";
import { NAME } from "./reference.ts";
import type { Satellite } from "./satellite.ts";

/** Throws `usage` for a name that is none. */
export function defineSatellite<Input = JsonObject, Config = JsonObject>(
  satellite: Satellite<Input, Config>,
): Satellite<Input, Config> {
  if (!NAME.test(satellite.name)) {
    throw new PerigeeError(
      "usage",
      `satellite ${JSON.stringify(satellite.name)}: a name is a-z, 0-9 and "-", at most 63 characters, beginning with no "-"`,
    );
  }
  return Object.freeze({ ...satellite });
}
