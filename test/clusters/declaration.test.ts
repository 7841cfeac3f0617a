/** Reading declarations: YAML, JSON and objects, with any contents. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkDeclaration } from "../../src/clusters/declaration/check.ts";
import { readDeclarationObject } from "../../src/clusters/declaration/declaration.ts";
import { readDeclaration } from "../../src/clusters/declaration/yaml_declaration.ts";
import { userMsSince } from "../cpu_time.ts";
import { ONE, resolver } from "./satellites.ts";

const read = (text: string) => readDeclaration(text);

/** `line:column message` of each. */
const told = (text: string): string[] =>
  read(text).issues.list.map(({ line, column, message }) => `${line}:${column} ${message}`);

/** What a read of a text took, and what was wrong with it. */
function timed(text: string): { readonly ms: number; readonly messages: string } {
  const before = process.cpuUsage();
  const { issues, value } = read(text);
  const messages = issues.list.map(({ message }) => message).join("\n");
  expect(value === undefined).toBe(!issues.isEmpty);
  return { ms: userMsSince(before), messages };
}

describe("reading a declaration", () => {
  it("gives JSON for the core schema of YAML 1.2", () => {
    const text =
      'a: [1, -2.5, 0x1f, true, ~, "no", no, 2026-01-01]\nb:\n  c: |\n    two\n    lines\n? d\n: e\n';
    expect(read(text).value).toEqual({
      a: [1, -2.5, 31, true, null, "no", "no", "2026-01-01"],
      b: { c: "two\nlines\n" },
      d: "e",
    });
  });

  it("reads JSON as it is, indented by tabs as well", () => {
    const value = { sla: "1h", cluster: { satellites: [{ a: 'x: "y" # z', b: [{}, [], null, 1e-7] }] } };
    for (const indent of [undefined, 2, "\t"])
      expect(read(JSON.stringify(value, undefined, indent)).value).toEqual(value);
  });

  it("keeps members called __proto__ and constructor as members", () => {
    const value = read("__proto__: { x: 1 }\nconstructor: 2").value;
    expect(JSON.stringify(value)).toBe('{"__proto__":{"x":1},"constructor":2}');
    expect(({} as { x?: unknown }).x).toBeUndefined();
  });

  it("refuses what JSON has no value for", () => {
    expect(told("a: .inf")).toEqual(["1:4 is not a value of JSON: put it in quotes"]);
    expect(told("a: .nan\nb: 12345678901234567890")).toEqual([
      "1:4 is not a value of JSON: put it in quotes",
      "2:4 is a larger whole number than JSON keeps exactly: put it in quotes",
    ]);
  });

  it("refuses objects of a program that are not JSON, or too much of it", () => {
    const circle: Record<string, unknown> = {};
    circle["self"] = circle;
    let deep: unknown = 1;
    for (let level = 0; level < 65; level += 1) deep = [deep];
    for (const [object, message] of [
      [circle, "must be an object of JSON"],
      [{ a: 10n }, "must be an object of JSON"],
      [undefined, "must be an object of JSON"],
      [deep, "is nested deeper than 64 levels"],
      ["x".repeat(262_143), "a declaration has at most 262144 bytes, got 262145"],
    ] as const)
      expect(readDeclarationObject(object).issues.list).toEqual([{ path: "", message }]);
  });
});

describe("fault 101: a declaration that is a trap", () => {
  it("refuses aliases, so that a billion laughs stay nine lines", () => {
    const lines = ["a0: &a0 lol"];
    for (let level = 1; level < 10; level += 1)
      lines.push(`a${level}: &a${level} [${Array.from({ length: 10 }, () => `*a${level - 1}`).join(", ")}]`);
    const { ms, messages } = timed(lines.join("\n"));
    expect(messages).toContain("aliases are not taken");
    expect(ms).toBeLessThan(500);
  });

  it("refuses merge keys, duplicate keys, tags and second documents, each at its place", () => {
    expect(told("a: 1\n<<: { b: 2 }")).toEqual(["2:1 merge keys are not taken: write the keys out"]);
    expect(told("a: 1\nb:\n  c: 1\n  c: 2")).toEqual(['4:3 occurs twice: "c"']);
    expect(told('{"a": 1, "a": 2}')).toEqual(['1:10 occurs twice: "a"']);
    expect(told("a: !!js/function 'x'")[0]).toMatch(/^1:4 Unresolved tag/);
    expect(told("a: !secret x")[0]).toMatch(/^1:4 Unresolved tag/);
    expect(told("a: !!binary aGk=")[0]).toMatch(/^1:4 Unresolved tag/);
    expect(told("a: 1\n---\nb: 2")).toEqual(["2:1 a declaration is one document"]);
    expect(told("? [a, b]\n: 1")).not.toEqual([]);
  });

  it("refuses more than 256 KiB before it reads them", () => {
    expect(told(`a: ${"x".repeat(262_144)}`)).toEqual([
      "1:1 a declaration has at most 262144 bytes, got 262147",
    ]);
  });

  it.each([
    ["lists in brackets", "[".repeat(250_000)],
    ["objects in braces", "{a: ".repeat(60_000)],
    ["lists on a line", "- ".repeat(120_000)],
    ["keys of keys", "? ".repeat(120_000)],
    [
      "objects below each other",
      Array.from({ length: 600 }, (_, level) => `${" ".repeat(level)}a:`).join("\n"),
    ],
    ["65 levels", `${"[".repeat(65)}${"]".repeat(65)}`],
  ])("refuses depth by %s in bounded time", (_name, text) => {
    const { ms, messages } = timed(text);
    expect(messages).toContain("is nested deeper than 64 levels");
    expect(ms).toBeLessThan(500);
  });

  it("takes 64 levels", () => {
    expect(read(`${"[".repeat(64)}${"]".repeat(64)}`).issues.list).toEqual([]);
  });

  it.each([
    ["40,000 keys", Array.from({ length: 25_000 }, (_, key) => `k${key}: 1`).join("\n")],
    ["commas", `[${",".repeat(200_000)}`],
    ["anchors", "&a ".repeat(80_000)],
    ["tags", "!a ".repeat(80_000)],
    ["quotes", '"'.repeat(250_000)],
    ["directives", "%a\n".repeat(80_000)],
    ["comments", "#\n".repeat(120_000)],
    ["documents", "---\n".repeat(60_000)],
    ["blank lines", "\n".repeat(250_000)],
    ["one long text", `a: "${"\\u0041".repeat(40_000)}"`],
    ["block texts", "|\n".repeat(120_000)],
    ["keys without values", `{${"a,".repeat(120_000)}`],
  ])("reads or refuses %s in bounded time", (_name, text) => {
    expect(timed(text).ms).toBeLessThan(2_000);
  });
});

describe("any text", () => {
  const pieces = fc.constantFrom(
    ..."sla: 1h|cluster:|satellites:|- |  |\n|uses: |identifier: a|input: |${{ |}}|a.output|each: |secrets.x|[|]|{|}|\"|'|&x |*x|<<: |!!str |--- |# |, |: |if: always|needs: |\t|\u0000|\ud800|config: |satellite/one/own".split(
      "|",
    ),
  );
  const yaml = fc.oneof(
    fc.array(pieces, { maxLength: 60 }).map((parts) => parts.join("")),
    fc.string({ unit: "binary", maxLength: 200 }),
    fc.json().map((text) => `cluster: { satellites: ${text} }`),
  );

  it("gives issues or a declaration, never an error", async () => {
    await fc.assert(
      fc.asyncProperty(yaml, async (text) => {
        const { issues, checked } = await checkDeclaration(text, { caller: ONE, resolver });
        expect(checked === undefined).toBe(!issues.isEmpty);
        for (const { line = 0, column = 0, message } of issues.list)
          expect(line > 0 && column > 0 && message !== "").toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it("that JSON made is read as JSON reads it", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), (text) => {
        const { value, issues } = read(text);
        // Only whole numbers beyond 2^53, depth and merge keys are refused.
        if (issues.isEmpty) expect(JSON.stringify(value)).toBe(JSON.stringify(JSON.parse(text)));
        else
          expect(issues.list.map(({ message }) => message).join()).toMatch(
            /whole number|no value|twice|merge keys/,
          );
      }),
      { numRuns: 500 },
    );
  });
});
