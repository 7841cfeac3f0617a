/**
 * Says what a query parameter must be that its schema refuses, from its type and bounds.
 */
import { z } from "../../schema.ts";

/** Undefined if the schema's own message says it. `value` is the parameter as it was sent, `code` is that of the fault. */
export function queryWords(schema: unknown, value: unknown, code: string): string | undefined {
  if (code === "unrecognized_keys") return undefined;
  if (Array.isArray(value)) return "must be set once";
  const known = innerOf(schema);
  if (known instanceof z.ZodNumber)
    return `must be a whole number from ${known.minValue} to ${known.maxValue}`;
  if (known instanceof z.ZodEnum) return `must be ${oneOf(known.options)}`;
  if (known instanceof z.ZodLiteral) return `must be ${oneOf([...known.values])}`;
  if (known instanceof z.ZodISODate) return "must be a day as YYYY-MM-DD";
  if (!(known instanceof z.ZodString) || !code.startsWith("too_")) return undefined;
  const { minLength, maxLength } = known;
  return `must have ${minLength ?? 0} to ${maxLength} characters`;
}

/** Without what makes it optional. */
function innerOf(schema: unknown): unknown {
  const isWrapped = schema instanceof z.ZodOptional || schema instanceof z.ZodDefault;
  return isWrapped ? innerOf(schema.unwrap()) : schema;
}

function oneOf(values: readonly unknown[]): string {
  const quoted = values.map((value) => JSON.stringify(value));
  return quoted.length === 1 ? String(quoted[0]) : `one of ${quoted.join(", ")}`;
}
