/** Types at places of schemas that others wrote. */
import { expect, it } from "vitest";
import { SchemaReader } from "../../src/satellites/sdk/schema_reader.ts";
import type { JsonObject } from "../../src/work/json.ts";
import { userMsSince } from "../cpu_time.ts";

const typesOf = (schema: JsonObject, ...steps: string[]) => {
  const reader = new SchemaReader(schema);
  let at: ReturnType<SchemaReader["below"]> = [schema];
  for (const step of steps) at = at === undefined ? undefined : reader.below(at, step);
  return at === undefined ? undefined : reader.types(at);
};

it("a schema that refers to itself many times over is read in bounded time", () => {
  const again = Array.from({ length: 100 }, () => ({ $ref: "#" }));
  const steps = Array.from({ length: 32 }, () => "a");
  const before = process.cpuUsage();
  expect(typesOf({ anyOf: [...again, { type: "string" }] })).toContain("string");
  expect(typesOf({ anyOf: [{ $ref: "#" }, { $ref: "#" }, { type: "string" }] })).toEqual(["string"]);
  const twice = { type: "object", properties: { a: { anyOf: [{ $ref: "#" }, { $ref: "#" }] } } };
  expect(typesOf(twice, ...steps)).toEqual(["object"]);
  const wide = { anyOf: Array.from({ length: 5_000 }, (_, index) => ({ const: index })) };
  expect(typesOf(wide)).toHaveLength(6);
  expect(typesOf({ $ref: "#" })).toHaveLength(6);
  expect(userMsSince(before)).toBeLessThan(500);
});
