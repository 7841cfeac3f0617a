/**
 * `--schema` and `--schema-tries` as options of the engine.
 */
import type { SchemaOptions } from "../../engine/schemas/run_schema.ts";
import { PerigeeError } from "../../errors.ts";
import { readSchemaFile } from "../../json_schema.ts";

/** As commander returns them. */
export interface SchemaArguments {
  /** The requests of a table have its schema (`tables/table_arguments.ts`). */
  readonly prompt?: string;
  readonly schema?: string;
  readonly schemaTries?: number;
}

/** Throws `usage`, and `input_unreadable` or `invalid_config` for a file that cannot be used. */
export async function schemaOptions({
  prompt,
  schema,
  schemaTries,
}: SchemaArguments): Promise<SchemaOptions> {
  if (schemaTries !== undefined && schemaTries > 3)
    throw new PerigeeError("usage", `--schema-tries must be 1, 2 or 3, got ${schemaTries}`);
  const tries = schemaTries === undefined ? {} : { schemaTries };
  return schema === undefined || prompt !== undefined
    ? tries
    : { schema: await readSchemaFile(schema), ...tries };
}
