/**
 * How paths name a satellite: /v1/satellites/{project}/{satellite}/.
 */
import { noSatellite } from "../../satellites/kinds/catalogue_refusals.ts";
import { NAME, type SatelliteReference } from "../../satellites/sdk/reference.ts";
import { z } from "../../schema.ts";

/** As in the path, not yet checked. */
export interface SatelliteParameters {
  readonly project: string;
  readonly satellite: string;
}

/** Of any form: impossible names are not found. */
const project = z.string().describe("Namespace of the satellite: a project, or perigee.");

export const namespaceParameters: z.ZodType<Pick<SatelliteParameters, "project">> = z.strictObject({
  project,
});

export const satelliteParameters: z.ZodType<SatelliteParameters> = z.strictObject({
  project,
  satellite: z.string().describe("Name of the satellite."),
});

/** Throws `not_found` for impossible names. */
export function referenceOf({ project, satellite }: SatelliteParameters): SatelliteReference {
  if (!NAME.test(project) || !NAME.test(satellite)) throw noSatellite();
  return { namespace: project, name: satellite };
}
