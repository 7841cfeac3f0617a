/**
 * Asks the provider for answers that fit a schema: in its own structured output where it has one, else in words.
 *
 *   a schema                         as `responseJsonSchema`, unless the item sets a format itself
 *   `true` or `{}`: any JSON         JSON mode, and a line of words, which OpenAI's JSON mode demands
 *   a provider without a schema      what it has (JSON mode or nothing), and the schema in the system instruction
 *
 * The answer is checked in any case, so nothing that a provider leaves out of this refuses an item.
 */
import { isObject, type JsonObject } from "../../work/json.ts";
import type { JsonValue, ModelRequest } from "../../work/request.ts";

/** Only for tools: providers refuse some of them, and the check does not need them sent. */
const NOT_SENT: ReadonlySet<string> = new Set(["$schema", "$id"]);

/** The schema for an item's answer, the item's own or that of its work; undefined where its answer is not checked. */
export function schemaFor({ schema }: ModelRequest, common: JsonValue | undefined): JsonValue | undefined {
  return (schema === undefined ? common : schema) ?? undefined;
}

/** The request, asking for an answer that fits. */
export function askingFor(request: ModelRequest, schema: JsonValue): ModelRequest {
  const { config } = request;
  if (setsFormat(request)) return request;
  if (!isAnyJson(schema)) {
    const responseJsonSchema = isObject(schema) ? sent(schema) : schema;
    return { ...request, config: { ...config, responseJsonSchema }, isChecked: true };
  }
  const asking: ModelRequest = {
    ...request,
    config: { ...config, responseMimeType: "application/json" },
    isChecked: true,
  };
  return inWords(asking, "Answer with JSON only.");
}

/** The same for a provider that does not take the schema. */
export function askingInWords(request: ModelRequest, schema: JsonValue): ModelRequest {
  if (isAnyJson(schema)) return request; // says so already
  const text = `Answer with JSON only. It must fit this JSON Schema: ${JSON.stringify(isObject(schema) ? sent(schema) : schema)}`;
  return inWords(request, text);
}

function inWords(request: ModelRequest, text: string): ModelRequest {
  const system = [...request.system, text];
  const { openaiBody } = request;
  if (openaiBody === undefined) return { ...request, system };
  const messages = openaiBody["messages"];
  const said = [{ role: "system", content: text }, ...(Array.isArray(messages) ? messages : [])];
  return { ...request, system, openaiBody: { ...openaiBody, messages: said } };
}

function setsFormat({ config, openaiBody }: ModelRequest): boolean {
  const { responseSchema, responseJsonSchema } = config;
  const format = openaiBody?.["response_format"];
  return (
    responseSchema !== undefined ||
    responseJsonSchema !== undefined ||
    (format !== undefined && format !== null)
  );
}

/** Of `false` too: it is refused with the schemas that cannot be used. */
function isAnyJson(schema: JsonValue): boolean {
  return typeof schema === "boolean" || (isObject(schema) && Object.keys(schema).length === 0);
}

function sent(schema: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => !NOT_SENT.has(name)));
}
