/**
 * Where `secret://name` refers to a secret: in `config`, and in the input fields that the satellite's schema marks.
 *
 *   "x-secret": true   in the JSON Schema of an input field: references in it and below it are expanded
 *   "x-secret": false  the opposite: what is below is a user's text, such as an instruction to a model
 *   no mark            as the object around it; the input as a whole is plain text, the config as a whole is expanded
 *
 * Anywhere else a reference is plain text and is passed on unchanged, so that no prompt, subject, body or title can draw a value
 * out. Where a schema has several forms (`anyOf`, `oneOf`, `allOf`), all that name the field must agree; otherwise it is plain.
 *
 * Limits: 128 forms of one place; a schema with more is read as one without marks there.
 */
import { isObject, type Json, type JsonObject, own } from "../../work/json.ts";
import type { AnySatellite } from "../sdk/satellite.ts";
import { jsonSchemaOf } from "../sdk/schema_reader.ts";

const MARK = "x-secret";
const FORMS_MAX = 128;
const COMBINED: readonly string[] = ["anyOf", "oneOf", "allOf"];

/** The schemas of a satellite, as far as marks are read from them. */
export type MarkedSatellite = Pick<AnySatellite, "input" | "config" | "inputJsonSchema" | "configJsonSchema">;

/** Whether references in the text at a pointer below `/input` or `/config` are expanded for this satellite. */
export function isExpanded(satellite: MarkedSatellite, pointer: string): boolean {
  const [, root, ...parts] = pointer.split("/");
  const steps = parts.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (root === "config") {
    const schema = satellite.configJsonSchema ?? jsonSchemaOf(satellite.config, "input");
    return hasMarks(schema) ? markAt(schema, steps, true) : true;
  }
  const schema = satellite.inputJsonSchema ?? jsonSchemaOf(satellite.input, "input");
  return root === "input" && hasMarks(schema) ? markAt(schema, steps, false) : false;
}

const marked = new WeakMap<JsonObject, boolean>();

/** Most satellites mark no field, and an input may hold many thousand texts. */
function hasMarks(schema: JsonObject | undefined): schema is JsonObject {
  if (schema === undefined) return false;
  const known = marked.get(schema) ?? JSON.stringify(schema).includes(`"${MARK}":`);
  marked.set(schema, known);
  return known;
}

/** A form that a place may have, with the mark that it has or inherits. */
interface Form {
  readonly schema: JsonObject;
  readonly isSecret: boolean;
}

function markAt(root: JsonObject, steps: readonly string[], fallback: boolean): boolean {
  let inherited = fallback;
  let forms = formsOf([{ schema: root, isSecret: fallback }], root);
  for (const step of steps) {
    if (forms === undefined) return fallback;
    if (forms.length > 0) inherited = areSecret(forms);
    forms = formsOf(
      forms.flatMap((form) => below(form, step)),
      root,
    );
  }
  if (forms === undefined) return fallback;
  const texts = forms.filter(({ schema }) => mayBeText(schema));
  return texts.length === 0 ? inherited : areSecret(texts);
}

function areSecret(forms: readonly Form[]): boolean {
  return forms.every(({ isSecret }) => isSecret);
}

/** With all that they refer to and are made of; undefined where those are too many to read. */
function formsOf(given: readonly Form[], root: JsonObject): readonly Form[] | undefined {
  const forms: Form[] = [];
  const seen = { secret: new Set<JsonObject>(), plain: new Set<JsonObject>() };
  const waiting = [...given];
  for (let form = waiting.pop(); form !== undefined; form = waiting.pop()) {
    const alike = form.isSecret ? seen.secret : seen.plain;
    if (alike.has(form.schema)) continue;
    alike.add(form.schema);
    if (alike.size > FORMS_MAX) return undefined;
    const mark = own(form.schema, MARK);
    const isSecret = typeof mark === "boolean" ? mark : form.isSecret;
    const parts = partsOf(form.schema, root);
    if (parts.length === 0 || own(form.schema, "properties") !== undefined)
      forms.push({ schema: form.schema, isSecret });
    waiting.push(...parts.map((schema) => ({ schema, isSecret })));
  }
  return forms;
}

function partsOf(schema: JsonObject, root: JsonObject): readonly JsonObject[] {
  const combined = COMBINED.flatMap((keyword) => own(schema, keyword) ?? []);
  const target = own(schema, "$ref");
  return [...combined, typeof target === "string" ? (referred(root, target) ?? []) : []]
    .flat()
    .filter(isObject);
}

function referred(root: JsonObject, target: string): Json | undefined {
  let at: Json | undefined = target.startsWith("#") ? root : undefined;
  for (const part of target.slice(1).split("/").slice(1)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    at = isObject(at) ? own(at, name) : undefined;
  }
  return at;
}

/** What a form says of a member or an element; nothing where it does not name it. */
function below({ schema, isSecret }: Form, step: string): readonly Form[] {
  const properties = own(schema, "properties");
  const named = isObject(properties) ? own(properties, step) : undefined;
  const prefix = own(schema, "prefixItems");
  const element = Array.isArray(prefix) && /^\d+$/.test(step) ? (prefix[Number(step)] as Json) : undefined;
  const found = named ?? element ?? own(schema, "additionalProperties") ?? own(schema, "items");
  return isObject(found) ? [{ schema: found, isSecret }] : [];
}

function mayBeText(schema: JsonObject): boolean {
  const type = own(schema, "type");
  return type === undefined || [type].flat().includes("string");
}
