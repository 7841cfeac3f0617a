/**
 * What a satellite says of itself: for those who choose one, for engines that call it elsewhere, and for verification,
 * which keeps its hash.
 *
 *   hash = SHA-256 of the canonical JSON of the wire form, in hexadecimal
 *
 * Limits: 128 KiB in all; schemas as `json_schema.ts` says.
 */
import { hash } from "node:crypto";
import { PerigeeError } from "../../errors.ts";
import { issuesOf, namedErrors, z } from "../../schema.ts";
import { isObject, type JsonObject } from "../../work/json.ts";
import { canonical, faultOfJsonSchema, isDeep } from "./json_schema.ts";
import { NAME } from "./reference.ts";
import type { AnySatellite, SatelliteExample, Schema } from "./satellite.ts";

/** Schemas are JSON Schema 2020-12. */
export interface SatelliteDescription {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly configSchema: JsonObject;
  readonly outputSchema?: JsonObject;
  readonly isRepeatable: boolean | "by_input";
  readonly destinationConcurrency?: number;
  readonly attemptsMax?: number;
  readonly attemptMsMax?: number;
  readonly example?: SatelliteExample;
}

const DESCRIPTION_BYTES_MAX = 128 * 1024;

/** Of an example. */
const jsonObject = z
  .record(z.string(), z.unknown())
  .describe("A JSON object.")
  .check((context) => {
    if (isDeep(context.value))
      context.issues.push({ code: "custom", message: "is nested too deep", input: context.value });
  }) as unknown as z.ZodType<JsonObject>; // bodies are JSON

/** An object of JSON Schema 2020-12. */
const jsonSchemaField = z.record(z.string(), z.unknown()).check((context) => {
  const fault = faultOfJsonSchema(context.value as JsonObject); // bodies are JSON
  if (fault !== undefined) context.issues.push({ code: "custom", message: fault, input: context.value });
}) as unknown as z.ZodType<JsonObject>; // as above

/** A description as it travels. */
export interface WireDescription {
  readonly name: string;
  readonly description: string;
  readonly input_schema: JsonObject;
  readonly config_schema: JsonObject;
  readonly output_schema?: JsonObject | undefined;
  readonly is_repeatable: boolean | "by_input";
  readonly destination_concurrency?: number | undefined;
  readonly attempts_max?: number | undefined;
  readonly attempt_ms_max?: number | undefined;
  readonly example?: WireExample | undefined;
}

interface WireExample {
  readonly input: JsonObject;
  readonly config: JsonObject;
  readonly output?: JsonObject | undefined;
}

export const wireDescription: z.ZodType<WireDescription> = z.strictObject({
  name: z.string().regex(NAME),
  description: z.string().max(4_096).default("").describe("What it does, for those who choose one."),
  input_schema: jsonSchemaField.describe("JSON Schema 2020-12 of the input."),
  config_schema: jsonSchemaField.describe("JSON Schema 2020-12 of the config."),
  output_schema: jsonSchemaField.optional().describe("JSON Schema 2020-12 of the output."),
  is_repeatable: z
    .union([z.boolean(), z.literal("by_input")])
    .default(false)
    .describe("Whether an attempt of which nothing is known may be repeated."),
  destination_concurrency: z.int().min(1).max(1_000).optional().describe("Executions at once."),
  attempts_max: z
    .int()
    .min(1)
    .max(10_000)
    .optional()
    .describe("Attempts of one execution of which nothing is known."),
  attempt_ms_max: z.int().min(1).max(86_400_000).optional().describe("An attempt is ended after this."),
  example: z
    .strictObject({ input: jsonObject, config: jsonObject, output: jsonObject.optional() })
    .optional()
    .describe("One execution that does no harm; verification runs it."),
});

/** Throws `usage` when a schema has no JSON Schema. */
export function describeSatellite(satellite: AnySatellite): SatelliteDescription {
  const { name, description, isRepeatable, output, example } = satellite;
  const { destinationConcurrency, attemptsMax, attemptMsMax } = satellite;
  const outputSchema =
    output === undefined && satellite.outputJsonSchema === undefined
      ? undefined
      : jsonSchemaOf(satellite, "output");
  return {
    ...{ name, description },
    inputSchema: jsonSchemaOf(satellite, "input"),
    configSchema: jsonSchemaOf(satellite, "config"),
    ...(outputSchema === undefined ? {} : { outputSchema }),
    isRepeatable: typeof isRepeatable === "function" ? "by_input" : isRepeatable,
    ...(destinationConcurrency === undefined ? {} : { destinationConcurrency }),
    ...(attemptsMax === undefined ? {} : { attemptsMax }),
    ...(attemptMsMax === undefined ? {} : { attemptMsMax }),
    ...(example === undefined ? {} : { example }),
  };
}

/** Callers write inputs, satellites write outputs: defaults are optional on one side and there on the other. */
function jsonSchemaOf(satellite: AnySatellite, what: "input" | "config" | "output"): JsonObject {
  const { inputJsonSchema, configJsonSchema, outputJsonSchema } = satellite;
  const given = { input: inputJsonSchema, config: configJsonSchema, output: outputJsonSchema }[what];
  return given ?? converted(satellite[what], satellite.name, what);
}

function converted(schema: Schema<unknown> | undefined, name: string, what: string): JsonObject {
  const standard = schema?.["~standard"] as (Partial<Converting> & object) | undefined; // the standard's optional part
  try {
    const convert = standard?.jsonSchema?.[what === "output" ? "output" : "input"];
    const found = convert?.({ target: "draft-2020-12" });
    if (isObject(found)) return JSON.parse(JSON.stringify(found)) as JsonObject; // as it would travel
  } catch (cause) {
    throw new PerigeeError("usage", `satellite ${name}: its ${what} has no JSON Schema`, { cause });
  }
  throw new PerigeeError(
    "usage",
    `satellite ${name}: its ${what} has no JSON Schema (Standard JSON Schema): set ${what}JsonSchema`,
  );
}

interface Converting {
  readonly jsonSchema: Readonly<
    Record<"input" | "output", (options: { readonly target: string }) => unknown>
  >;
}

/** As it travels; the member order is fixed. */
export function toWire(described: SatelliteDescription): WireDescription {
  const { name, description, inputSchema, configSchema, outputSchema, isRepeatable, example } = described;
  const { destinationConcurrency, attemptsMax, attemptMsMax } = described;
  return {
    ...{ name, description, input_schema: inputSchema, config_schema: configSchema },
    ...(outputSchema === undefined ? {} : { output_schema: outputSchema }),
    is_repeatable: isRepeatable,
    ...(destinationConcurrency === undefined ? {} : { destination_concurrency: destinationConcurrency }),
    ...(attemptsMax === undefined ? {} : { attempts_max: attemptsMax }),
    ...(attemptMsMax === undefined ? {} : { attempt_ms_max: attemptMsMax }),
    ...(example === undefined ? {} : { example: { ...example } }),
  };
}

/** Throws `invalid_request` with `details.param` for what is not a valid description. */
export function fromWire(given: unknown): SatelliteDescription {
  const parsed = wireDescription.safeParse(given, namedErrors);
  if (!parsed.success) {
    const [issue] = issuesOf(parsed.error);
    const param = issue?.path.join(".") || "description";
    throw new PerigeeError("invalid_request", `${param}: ${issue?.message}`, { details: { param } });
  }
  const wire = parsed.data;
  if (Buffer.byteLength(JSON.stringify(wire)) > DESCRIPTION_BYTES_MAX)
    throw new PerigeeError("too_large", `a description has at most ${DESCRIPTION_BYTES_MAX} bytes`);
  const { output_schema, destination_concurrency, attempts_max, attempt_ms_max, example } = wire;
  return {
    ...{ name: wire.name, description: wire.description, isRepeatable: wire.is_repeatable },
    ...{ inputSchema: wire.input_schema, configSchema: wire.config_schema },
    ...(output_schema === undefined ? {} : { outputSchema: output_schema }),
    ...(destination_concurrency === undefined ? {} : { destinationConcurrency: destination_concurrency }),
    ...(attempts_max === undefined ? {} : { attemptsMax: attempts_max }),
    ...(attempt_ms_max === undefined ? {} : { attemptMsMax: attempt_ms_max }),
    ...(example === undefined ? {} : { example: example as SatelliteExample }), // optional members, as parsed
  };
}

/** The same for the same description, by any author. */
export function descriptionHash(described: SatelliteDescription): string {
  return hash("sha256", canonical(JSON.parse(JSON.stringify(toWire(described))) as JsonObject));
}
