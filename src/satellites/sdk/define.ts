/**
 * `defineSatellite`: a satellite with its types inferred from its schemas.
 */
import { PerigeeError } from "../../errors.ts";
import type { JsonObject } from "../../work/json.ts";
import { schemaOfJsonSchema } from "./json_schema.ts";
import { NAME } from "./reference.ts";
import type { Satellite, SatelliteCall, Schema } from "./satellite.ts";

/** A satellite as its author writes it: what most leave out has a default, and `run` returns what `output` says. */
export interface SatelliteDefinition<Input, Config, Output>
  extends Omit<Satellite<Input, Config>, "description" | "config" | "output" | "isRepeatable" | "run"> {
  /** Default: none. */
  readonly description?: string;
  /** Default: there is nothing to set. */
  readonly config?: Schema<Config>;
  readonly output?: Schema<Output>;
  /** Default false: an attempt of which nothing is known ends the execution as `ambiguous`. */
  readonly isRepeatable?: Satellite<Input, Config>["isRepeatable"];
  run(call: SatelliteCall<Input, Config>): Promise<Output>;
}

/** Throws `usage` for an invalid definition. */
export function defineSatellite<
  Input = JsonObject,
  Config = Readonly<Record<string, never>>,
  Output extends object = JsonObject,
>(definition: SatelliteDefinition<Input, Config, Output>): Satellite<Input, Config> {
  const { name, config, input, output, run } = definition;
  if (!NAME.test(name)) {
    throw new PerigeeError(
      "usage",
      `satellite ${JSON.stringify(name)}: a name is a-z, 0-9 and "-", at most 63 characters, not beginning with "-"`,
    );
  }
  for (const [what, schema] of Object.entries({ input, config, output }))
    if (!isSchema(schema) && (what === "input" || schema !== undefined))
      throw new PerigeeError("usage", `satellite ${name}: ${what} is not a schema of zod or Standard Schema`);
  if (typeof run !== "function") throw new PerigeeError("usage", `satellite ${name}: run is not a function`);
  const defined = {
    ...{ description: "", config: schemaOfJsonSchema(NOTHING), isRepeatable: false },
    ...definition,
  };
  // What `output` lets through is JSON, and of the type that `run` returns; the empty config is the default type's.
  return Object.freeze(defined) as unknown as Satellite<Input, Config>;
}

const NOTHING: JsonObject = { type: "object", properties: {}, additionalProperties: false };

function isSchema(given: unknown): boolean {
  const isHolder = (typeof given === "object" && given !== null) || typeof given === "function";
  return isHolder && "~standard" in given;
}
