/**
 * Satellites and a resolver for tests of clusters: those of a vendor, of the caller's project and of another one.
 */
import { PerigeeError } from "../../src/errors.ts";
import type { ResolvedSatellite, SatelliteResolver } from "../../src/satellites/sdk/catalogue.ts";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import type { ExecutionCaller } from "../../src/satellites/sdk/execution.ts";
import type { Satellite } from "../../src/satellites/sdk/satellite.ts";
import { z } from "../../src/schema.ts";

export const ONE: ExecutionCaller = { project: "one", keyId: "key", isBeta: true };

const open = z.looseObject({});

/** Takes anything, and says nothing of its output. */
const anything = satellite("anything", open);

/** Closed schemas on every side. */
const parse = satellite(
  "parse",
  z.strictObject({
    text: z.string(),
    pages: z.number().int().optional(),
    tags: z.array(z.string()).optional(),
  }),
  z.strictObject({ format: z.enum(["markdown", "text"]).default("text"), token: z.string().optional() }),
  z.strictObject({
    text: z.string(),
    files: z.array(z.strictObject({ id: z.string(), bytes: z.number() })),
    meta: z.strictObject({ title: z.string().nullable() }).optional(),
  }),
);

const KNOWN = new Map<string, Satellite>([
  ["perigee/anything", anything],
  ["perigee/parse", parse],
  ["one/own", satellite("own", open)],
  ["two/foreign", satellite("foreign", open)],
]);

/** Vendor satellites for beta keys, those of the project for the project, and nothing else. */
export const resolver: SatelliteResolver = {
  async resolve(caller, reference): Promise<ResolvedSatellite> {
    const found = KNOWN.get(`${reference.namespace}/${reference.name}`);
    const isVendor = reference.namespace === "perigee";
    if (found === undefined || (!isVendor && reference.namespace !== caller.project))
      throw new PerigeeError("not_found", "no such satellite");
    if (isVendor && !caller.isBeta) throw new PerigeeError("forbidden", "needs the beta flag");
    return { reference, kind: isVendor ? "vendor" : "custom", satellite: found, fixedConfig: {} };
  },
};

function satellite(
  name: string,
  input: z.ZodType,
  config: z.ZodType = z.looseObject({}),
  output?: z.ZodType,
): Satellite {
  return defineSatellite({
    name,
    description: name,
    input,
    config,
    ...(output === undefined ? {} : { output }),
    isRepeatable: true,
    run: async () => ({}),
  } as Satellite);
}
