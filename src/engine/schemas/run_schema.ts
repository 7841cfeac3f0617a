/**
 * The schema of a run: what providers are asked for, and what answers are checked with.
 *
 *   JSON Schema                            both
 *   a Standard Schema of zod 4             checked by itself, and sent as the JSON Schema that zod makes of it
 *   one that says its JSON Schema          the same (`~standard.jsonSchema`, https://standardschema.dev/json-schema)
 *   any other one                          checked by itself; providers are asked for JSON
 */
import { ANSWERS_MAX } from "../../dispatch/retry.ts";
import { PerigeeError } from "../../errors.ts";
import { type AnswerCheck, answerCheck, loadValidators } from "../../json_schema.ts";
import { isObject, type Json, type JsonObject } from "../../work/json.ts";
import { isStandardSchema, issueText, type StandardSchema } from "../../work/standard_schema.ts";
import { type FitTerms, UnfitAnswers } from "./answer_fit.ts";

/** What answers must fit: a JSON Schema, or a schema of a library such as zod. */
export type AnswerSchema = JsonObject | boolean | StandardSchema;

/** What a call says of the form of its answers. */
export interface SchemaOptions {
  /**
   * What the answers must fit; items may have their own instead. Providers are asked for it, each answer is read as JSON and checked, and
   * one that does not fit is asked for again with the fault, at most `schemaTries` times in all; then its item ends as `schema_unmet`.
   * Holds for what is open from this call on. Throws `invalid_config` where it cannot be used.
   */
  readonly schema?: AnswerSchema;
  /** Answers for an item at most, the first included: 1 to 3. Default 3. */
  readonly schemaTries?: number;
}

/** A schema, ready for use. */
export interface RunSchema {
  /** What providers are asked for, as JSON; undefined without a schema. */
  readonly json: string | undefined;
  readonly fit: FitTerms;
}

/** For items that say themselves what their answers must fit. */
export function ownSchemas(): FitTerms {
  return { check: undefined, answersMax: ANSWERS_MAX, kept: new UnfitAnswers() };
}

/** Throws `usage`; `where` names the call. */
export function checkSchemaOptions({ schema, schemaTries }: SchemaOptions, where: string): void {
  if (schemaTries !== undefined && ![1, 2, 3].includes(schemaTries))
    throw new PerigeeError("usage", `${where}: schemaTries must be 1, 2 or 3, got ${String(schemaTries)}`);
  if (schema === undefined || typeof schema === "boolean" || isStandardSchema(schema) || isObject(schema))
    return;
  throw new PerigeeError(
    "usage",
    `${where}: schema must be a JSON Schema or a Standard Schema, such as one of zod`,
  );
}

/** Throws `invalid_config` for a schema that cannot be used. */
export async function readRunSchema({ schema, schemaTries }: SchemaOptions): Promise<RunSchema> {
  const fit = { ...ownSchemas(), answersMax: schemaTries ?? ANSWERS_MAX };
  if (schema === undefined) return { json: undefined, fit };
  if (isStandardSchema(schema)) {
    const json = JSON.stringify(await jsonSchemaOf(schema));
    return { json, fit: { ...fit, check: standardCheck(schema) } };
  }
  const json = JSON.stringify(schema);
  await loadValidators();
  return { json, fit: { ...fit, check: answerCheck(json) } };
}

/** What zod makes of its schema, or what another one says; `true` where it says nothing. */
async function jsonSchemaOf(schema: StandardSchema): Promise<Json> {
  const standard = schema["~standard"] as StandardSchema["~standard"] & { readonly jsonSchema?: unknown };
  if (standard.vendor === "zod" && "_zod" in schema) {
    const { answerJsonSchema } = await import("../../schema.ts");
    return answerJsonSchema(schema) as Json; // zod makes JSON
  }
  const { jsonSchema } = standard;
  const input: unknown = isMember(jsonSchema, "input") ? jsonSchema.input : undefined;
  if (typeof input !== "function") return true;
  try {
    return input({ target: "draft-2020-12" }) as Json;
  } catch {
    return true; // it has no JSON Schema for this one
  }
}

function isMember<Name extends string>(value: unknown, name: Name): value is Record<Name, unknown> {
  return typeof value === "object" && value !== null && name in value;
}

function standardCheck(schema: StandardSchema): AnswerCheck {
  return {
    fault: (value) => {
      const result = schema["~standard"].validate(value);
      if (result instanceof Promise) {
        result.catch(() => undefined); // the run fails in any case
        throw new PerigeeError("usage", "schema must validate at once, and this one returns a promise");
      }
      return result.issues === undefined ? undefined : issueText(result.issues);
    },
  };
}
