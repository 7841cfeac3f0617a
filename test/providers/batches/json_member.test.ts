/** Members of JSON texts as the bytes that spell them. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { memberBytes } from "../../../src/providers/batches/json_member.ts";

const member = (json: string, ...path: string[]): string | undefined => {
  const found = memberBytes(new TextEncoder().encode(json), path);
  return found === undefined ? undefined : new TextDecoder().decode(found);
};

it("a member keeps the digits and spaces of its text", () => {
  expect(member('{"a":{"b":1.10e+02,"c":[1, 2]}}', "a", "b")).toBe("1.10e+02");
  expect(member('{"a": {"c" : [1, 2] } }', "a", "c")).toBe("[1, 2]");
  expect(member('{"seed":12345678901234567890}', "seed")).toBe("12345678901234567890");
  expect(member(' {"a":1} ')).toBe('{"a":1}');
});

it("braces, quotes and backslashes inside strings end nothing", () => {
  expect(member(String.raw`{"x":"}\"{\\","a":"\\\"]"}`, "a")).toBe(String.raw`"\\\"]"`);
});

it("of members with one name the last counts, and a name may be escaped", () => {
  expect(member('{"a":1,"a":2}', "a")).toBe("2");
  expect(member(String.raw`{"\u0061":1}`, "a")).toBe("1");
});

it("what is not there is undefined", () => {
  for (const [json, path] of [
    ['{"a":1}', ["b"]],
    ['{"a":1}', ["a", "b"]],
    ["[1]", ["0"]],
    ['{"a":null}', ["a", "b"]],
    ["{}", ["a"]],
  ] as const)
    expect(member(json, ...path), json).toBe(undefined);
});

it("for any JSON, a member is the value that JSON.parse finds, however it is spaced", () => {
  const spaced = fc.tuple(fc.jsonValue(), fc.constantFrom(undefined, 1, "\t"));
  fc.assert(
    fc.property(fc.dictionary(fc.string(), spaced), fc.string(), (members, missing) => {
      const value = Object.fromEntries(Object.entries(members).map(([name, [inner]]) => [name, { inner }]));
      const space = Object.values(members)[0]?.[1];
      const json = JSON.stringify(value, null, space);
      for (const [name, { inner }] of Object.entries(value))
        expect(JSON.parse(member(json, name, "inner") ?? "")).toEqual(JSON.parse(JSON.stringify(inner)));
      if (!Object.hasOwn(value, missing)) expect(member(json, missing)).toBe(undefined);
    }),
  );
});

it("for any bytes it ends, and throws nothing", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.array(fc.string(), { maxLength: 3 }), (json, path) => {
      memberBytes(json, path);
    }),
  );
  const text = fc.stringMatching(/^[{}[\]",:\\a1 ]{0,60}$/);
  fc.assert(fc.property(text, (json) => void member(json, "a", "1")));
});
