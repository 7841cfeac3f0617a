/**
 * The schema of a submitted list.
 *
 *   a posted task    each item has it as JSON; what the program checks itself is with the task while it is in this process
 *   runs             an option of each; the list has it as JSON, for its runs in later processes
 */
import { messageOf } from "../../errors.ts";
import type { JsonObject } from "../../work/json.ts";
import { isStandardSchema } from "../../work/standard_schema.ts";
import type { OwnCheck } from "../schemas/answer_fit.ts";
import {
  type AnswerSchema,
  checkSchemaOptions,
  readRunSchema,
  type SchemaOptions,
} from "../schemas/run_schema.ts";

/** Of one call, read. */
export interface ListSchema {
  readonly value: AnswerSchema;
  /** As providers are asked for it. */
  readonly json: string;
  /** Only of a Standard Schema. */
  readonly check: OwnCheck | undefined;
}

/** What is stored of it with a list of runs. */
export interface StoredSchema {
  readonly schema?: JsonObject | boolean;
  readonly schemaTries?: number;
}

/** Undefined without a schema. A JSON Schema may be changed by the caller once this has returned. Throws `usage`, `invalid_config`. */
export async function readListSchema(options: SchemaOptions): Promise<ListSchema | undefined> {
  checkSchemaOptions(options, "submit");
  const { schema } = options;
  if (schema === undefined) return undefined;
  const { json = "", fit } = await readRunSchema(options);
  if (!isStandardSchema(schema))
    return { value: JSON.parse(json) as JsonObject | boolean, json, check: undefined };
  return { value: schema, json, check: { json, fault: (value) => guarded(() => fit.check?.fault(value)) } };
}

/** Tasks are sent together: a function that throws must not end the items of others. */
function guarded(fault: () => string | undefined): string | undefined {
  try {
    return fault();
  } catch (error) {
    return `it could not be checked: ${messageOf(error)}`;
  }
}

/** As it is stored. */
export function storedSchema(schema: ListSchema | undefined, schemaTries: number | undefined): StoredSchema {
  return {
    ...(schema === undefined ? {} : { schema: JSON.parse(schema.json) as JsonObject | boolean }),
    ...(schemaTries === undefined ? {} : { schemaTries }),
  };
}
