/**
 * A JSON Schema as columns of an output table: a column for each property of the object that it describes.
 */
import { PerigeeError } from "../../errors.ts";
import { readSchemaFile } from "../../json_schema.ts";
import type { CellType, Column } from "../../tables/cell.ts";
import { isObject, type JsonObject } from "../../work/json.ts";

/** What a run takes of a schema. */
export interface ColumnsSchema {
  readonly schema: JsonObject;
  readonly columns: readonly Column[];
}

/** Throws `usage` for what is not a schema of an object with properties; `input_unreadable`, `invalid_config`. */
export async function readColumnsSchema(path: string): Promise<ColumnsSchema> {
  const schema = await readSchemaFile(path);
  const properties = isObject(schema) ? schema["properties"] : undefined;
  if (!isObject(schema) || !isObject(properties) || Object.keys(properties).length === 0)
    throw new PerigeeError(
      "usage",
      `--schema: ${path} must be a JSON Schema of an object with properties, because each of them is a column of the output`,
    );
  const columns = Object.entries(properties).map(([name, property]) => ({ name, type: typeOf(property) }));
  return { schema, columns };
}

function typeOf(property: unknown): CellType {
  const given = isObject(property) ? property["type"] : undefined;
  const types = (Array.isArray(given) ? given : [given]).filter((type) => type !== "null");
  const [type] = types;
  if (types.length !== 1) return "text";
  if (type === "integer" || type === "number" || type === "boolean") return type;
  return type === "object" || type === "array" ? "json" : "text";
}
