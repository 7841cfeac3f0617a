/** Values against schemas that others wrote. */
import { describe, expect, it } from "vitest";
import {
  canonical,
  faultOfJsonSchema,
  issuesOf,
  propertiesOf,
  schemaOfJsonSchema,
  withoutProperties,
} from "../../src/satellites/sdk/json_schema.ts";
import { z } from "../../src/schema.ts";
import type { Json, JsonObject } from "../../src/work/json.ts";
import { userMsSince } from "../cpu_time.ts";

const places = (value: Json, schema: JsonObject) =>
  issuesOf(value, schema).map(({ path, message }) => `${path.join(".")}: ${message}`);

const job = z.strictObject({
  to: z.array(z.string().min(1).max(5)).min(1).max(2),
  kind: z.enum(["a", "b"]),
  size: z.int().min(0).lt(10).optional(),
  body: z.union([z.string(), z.strictObject({ html: z.string() })]).optional(),
  tree: z.record(z.string(), z.number()).optional(),
});

describe("a value against a schema of zod's, as JSON Schema", () => {
  const schema = job["~standard"].jsonSchema.input({ target: "draft-2020-12" }) as JsonObject;

  it("passes when zod takes it", () => {
    for (const value of [
      { to: ["x"], kind: "a" },
      { to: ["x", "y"], kind: "b", size: 9, body: { html: "" }, tree: { __proto__x: 1 } },
    ])
      expect(places(value, schema)).toEqual([]);
  });

  it("says every place where it does not fit, as zod would", () => {
    expect(places({ to: [], kind: "c", size: 10, more: 1 }, schema)).toEqual([
      "to: must have no fewer elements than 1",
      'kind: must be one of ["a","b"]',
      "size: must be less than 10",
      "more: is not known here",
    ]);
    expect(places({ to: ["x", 1, "toolong"], size: 1.5, body: { html: 1 } }, schema)).toEqual([
      "kind: is required",
      "to: must have no more elements than 2",
      "to.1: must be string",
      "to.2: must be no longer than 5",
      "size: must be integer",
      "body.html: must be string",
    ]);
    expect(places({ to: ["x"], kind: "a", tree: { x: "1" } }, schema)).toEqual(["tree.x: must be number"]);
  });
});

describe("an untrusted schema", () => {
  it("with a pattern that takes for ever costs nothing: patterns are checked where the satellite runs", () => {
    const schema = { type: "object", properties: { a: { type: "string", pattern: "^(a+)+$" } } };
    expect(places({ a: `${"a".repeat(50)}!` }, schema)).toEqual([]);
  });

  it("that refers to itself without end lets pass what it does not reach", () => {
    const loop: JsonObject = { type: "object", anyOf: [{ $ref: "#" }, { $ref: "#" }, false] };
    expect(places({}, loop)).toEqual([]);
    const list: JsonObject = {
      $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } } } },
    };
    expect(places({ next: { next: 1 } }, { ...list, $ref: "#/$defs/node" })).toEqual([
      "next.next: must be object",
    ]);
  });

  it("sees only own members", () => {
    const schema: JsonObject = { type: "object", required: ["toString", "__proto__"] };
    expect(places({}, schema)).toEqual(["toString: is required", "__proto__: is required"]);
    expect(places(JSON.parse('{"__proto__": 1, "toString": 2}') as Json, schema)).toEqual([]);
  });

  it("is refused when it is too large, too deep, or of no object", () => {
    expect(faultOfJsonSchema({ type: "string" })).toMatch(/describes no object/);
    expect(faultOfJsonSchema({ type: "object", description: "x".repeat(65_536) })).toMatch(
      /more than 65536 bytes/,
    );
    let deep: JsonObject = { type: "object" };
    for (let n = 0; n < 40; n += 1) deep = { type: "object", properties: { a: deep } };
    expect(faultOfJsonSchema(deep)).toMatch(/deeper than 32 levels/);
    expect(faultOfJsonSchema({ type: "object" })).toBeUndefined();
  });
});

it("a schema of JSON Schema is a Standard Schema that leaves values as they are", async () => {
  const schema = schemaOfJsonSchema({ type: "object", required: ["a"] });
  expect(await schema["~standard"].validate({ a: 1 })).toEqual({ value: { a: 1 } });
  expect(await schema["~standard"].validate({})).toEqual({
    issues: [{ message: "is required", path: ["a"] }],
  });
  expect(await schema["~standard"].validate(undefined)).toEqual({
    issues: [{ message: "is not JSON", path: [] }],
  });
});

it("the same value has the same canonical text, in any order of its members", () => {
  expect(canonical({ b: [1, { d: null, c: "x" }], a: true })).toBe('{"a":true,"b":[1,{"c":"x","d":null}]}');
  expect(canonical({ a: true, b: [1, { c: "x", d: null }] })).toBe('{"a":true,"b":[1,{"c":"x","d":null}]}');
});

describe("a schema of choices", () => {
  const choices = z.discriminatedUnion("to", [
    z.strictObject({
      to: z.literal("loki"),
      url: z.string(),
      labels: z.record(z.string(), z.string()).optional(),
    }),
    z.strictObject({ to: z.literal("splunk"), url: z.string(), token: z.string() }),
  ]);
  const schema = choices["~standard"].jsonSchema.input({ target: "draft-2020-12" }) as JsonObject;

  it("says what is wrong with the choice that is meant", () => {
    expect(faultOfJsonSchema(schema)).toBeUndefined();
    expect(places({ to: "splunk", url: "a", token: 1 }, schema)).toEqual(["token: must be string"]);
    expect(places({ to: "loki", url: "a", labels: { a: 1 } }, schema)).toEqual(["labels.a: must be string"]);
    expect(places({ to: "splunk", url: "a" }, schema)).toEqual(["token: is required"]);
    expect(places({ to: "splunk", url: "a", token: "b" }, schema)).toEqual([]);
  });

  it("has the properties of all its choices, and can be shown without some of them", () => {
    const { properties, isOpen } = propertiesOf(schema);
    expect([[...properties.keys()], isOpen]).toEqual([["to", "url", "labels", "token"], false]);
    const { properties: left } = propertiesOf(withoutProperties(schema, ["to", "token"]));
    expect([...left.keys()]).toEqual(["url", "labels"]);
    expect(JSON.stringify(withoutProperties(schema, ["token"]))).not.toContain("token");
    expect(propertiesOf({ type: "object", properties: { a: {} } }).isOpen).toBe(true);
    expect(propertiesOf({ type: "object", properties: {}, additionalProperties: false }).isOpen).toBe(false);
  });
});

describe("an untrusted schema and value, each as large as it may be", () => {
  const members = Object.fromEntries(Array.from({ length: 70_000 }, (_, index) => [`k${index}`, 1]));
  const nothings = Array.from({ length: 9_000 }, () => ({}));
  const required = Array.from({ length: 6_000 }, (_, index) => `r${index}`);
  const elements = Array.from({ length: 90_000 }, () => 1);
  const texts = required.map(() => "string");
  const $defs = { far: { required }, long: { maxLength: 2 }, one: { const: {} } };
  const refs = (name: string) => Array.from({ length: 1_500 }, () => ({ $ref: `#/$defs/${name}` }));

  it.each<readonly [string, Json, JsonObject]>([
    ["a list of constants", members, { enum: nothings }],
    ["the same constant in many choices", members, { anyOf: refs("one"), $defs }],
    [
      "the same list of names for many elements",
      Array.from({ length: 90_000 }, () => ({})),
      {
        items: { anyOf: [{ $ref: "#/$defs/far" }, {}] },
        $defs,
      },
    ],
    ["the same list of types for many elements", elements, { items: { anyOf: [{ type: texts }, {}] } }],
    ["the same long constant for many elements", elements, { items: { anyOf: [{ const: texts }, {}] } }],
    ["the same length in many choices", "x".repeat(1_000_000), { anyOf: refs("long"), $defs }],
    [
      "the same number of members in many choices",
      members,
      {
        anyOf: Array.from({ length: 1_500 }, () => ({ maxProperties: 1 })),
      },
    ],
  ])("take a bounded time with %s", (_what, value, schema) => {
    const before = process.cpuUsage();
    issuesOf({ value }, { properties: { value: schema }, $defs });
    expect(userMsSince(before)).toBeLessThan(1_000);
  });

  it("are compared by value as before", () => {
    const schema = { properties: { a: { enum: [{ b: [1, { c: null }] }, "x", 3] }, d: { const: [1] } } };
    expect(places({ a: { b: [1, { c: null }] }, d: [1] }, schema)).toEqual([]);
    expect(places({ a: { b: [1, { c: 0 }] }, d: [1, 2] }, schema)).toEqual([
      'a: must be one of [{"b":[1,{"c":null}]},"x",3]',
      "d: must be [1]",
    ]);
    const own = JSON.parse('{"a": {"__proto__": 1}}') as Json;
    expect(places(own, { properties: { a: { const: {} } } })).toEqual(["a: must be {}"]);
  });
});
