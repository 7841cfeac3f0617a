/**
 * `x-perigee-schema`: JSON Schema that all answers of a request must fit, where its items say nothing themselves. Limit: what Node
 * takes of headers, 16 KiB in all; characters beyond ASCII are written as `\u` escapes.
 */
import { messageOf, refusedParam } from "../../errors.ts";
import { checkSchema } from "../../tasks/shapes/request_schema.ts";
import { isObject, type JsonObject } from "../../work/json.ts";
import type { FastifyRequest } from "../http/fastify.ts";

const SCHEMA_HEADER = "x-perigee-schema";

/** Undefined without one. Throws `usage` for one that cannot be used. */
export async function schemaOf({
  headers,
}: Pick<FastifyRequest, "headers">): Promise<JsonObject | boolean | undefined> {
  const text = headers[SCHEMA_HEADER];
  if (text === undefined) return undefined;
  const schema = parsed(String(text));
  if (typeof schema !== "boolean" && !isObject(schema))
    throw refusedParam(SCHEMA_HEADER, "expected a JSON Schema");
  await checkSchema(schema, SCHEMA_HEADER);
  return schema;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw refusedParam(SCHEMA_HEADER, `it is not JSON: ${messageOf(cause)}`, cause);
  }
}
