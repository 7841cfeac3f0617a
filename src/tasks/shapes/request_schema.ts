/**
 * The schema of a request: each of its chats and files has it that says nothing itself.
 */
import { PerigeeError, refusedParam } from "../../errors.ts";
import { answerCheck, loadValidators } from "../../json_schema.ts";
import type { JsonObject } from "../../work/json.ts";
import type { RequestItem, TaskRequest } from "./requests.ts";

/** Throws `usage` for one that cannot be used; `param` is where it is. */
export async function checkSchema(schema: JsonObject | boolean, param: string): Promise<void> {
  await loadValidators();
  try {
    answerCheck(JSON.stringify(schema));
  } catch (error) {
    if (!(error instanceof PerigeeError)) throw error;
    throw refusedParam(param, error.message, error);
  }
}

/** The items of a request with it. */
export function itemsUnder(items: TaskRequest["items"], schema: JsonObject | boolean): TaskRequest["items"] {
  if (!Array.isArray(items)) return eachUnder(items, schema);
  return (items as readonly RequestItem[]).map((item) => itemUnder(item, schema)); // the other kind is a stream
}

async function* eachUnder(
  items: TaskRequest["items"],
  schema: JsonObject | boolean,
): AsyncGenerator<RequestItem> {
  for await (const item of items) yield itemUnder(item, schema);
}

/** An item with it; the same one where it says something itself, or is neither a chat nor a file. */
export function itemUnder(item: RequestItem, schema: JsonObject | boolean): RequestItem {
  if ("kind" in item && item.kind !== undefined && item.kind !== "chat") return item;
  return "schema" in item && item.schema !== undefined ? item : { ...item, schema };
}
