/**
 * References to secrets in texts, and values of secrets out of what comes back.
 */
import { describe, expect, it } from "vitest";
import { copyJson } from "../../src/satellites/sdk/json_copy.ts";
import {
  fillSecrets,
  secretNames,
  secretPointers,
  textAt,
} from "../../src/satellites/secrets/secret_texts.ts";

describe("references to secrets", () => {
  it("are found in every text, by their pointers, and filled in once", () => {
    const root = {
      input: { "a/b~c": "secret://one", list: ["plain", "Bearer secret://two-2!"] },
      config: { "secret://name": "kept", number: 1 },
    };
    const pointers = secretPointers(root);
    expect(pointers).toEqual(["/input/a~1b~0c", "/input/list/1"]);
    expect(pointers.map((pointer) => textAt(root, pointer))).toEqual([
      "secret://one",
      "Bearer secret://two-2!",
    ]);
    const values: Record<string, string> = { one: "secret://two-2", "two-2": "$&" };
    fillSecrets(root, pointers, (name) => values[name] ?? "");
    expect(root.input).toEqual({ "a/b~c": "secret://two-2", list: ["plain", "Bearer $&!"] });
  });

  it("are named up to the first character that no name has", () => {
    expect(secretNames("https://u:secret://pw@host/?k=secret://key_1&x")).toEqual(["pw", "key_1"]);
    expect(secretNames("secret://")).toEqual([""]);
  });

  it("lead only through own members", () => {
    const root = JSON.parse('{"input":{"__proto__":{"text":"secret://one"}}}') as { input: object };
    expect(secretPointers(root as never)).toEqual(["/input/__proto__/text"]);
    fillSecrets(
      root as never,
      ["/input/__proto__/text", "/input/constructor/name", "/input"],
      () => "filled",
    );
    expect(JSON.stringify(root)).toBe('{"input":{"__proto__":{"text":"filled"}}}');
    expect(Object.name).toBe("Object");
  });
});

describe("a copy of JSON", () => {
  it("has only own members, and shares nothing", () => {
    const given = { list: [1, "two", null], gone: undefined, nested: Object.create(null) as object };
    const copied = copyJson(given);
    expect(copied).toEqual({ ok: true, value: { list: [1, "two", null], nested: {} } });
    expect(copied.ok && (copied.value as unknown as typeof given).list).not.toBe(given.list);
    const poisoned = copyJson(JSON.parse('{"__proto__":{"polluted":true}}'));
    expect(poisoned.ok && JSON.stringify(poisoned.value)).toBe('{"__proto__":{"polluted":true}}');
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  it.each([
    ["a function", { run: () => 1 }],
    ["a map", new Map()],
    ["what a class made", new URL("http://a.test")],
    ["what has more than 64 levels", JSON.parse("[".repeat(65) + "]".repeat(65)) as unknown],
    [
      "what throws when it is read",
      {
        get broken(): never {
          throw new Error("no");
        },
      },
    ],
  ])("is not made of %s", (_what, value) => {
    expect(copyJson(value)).toMatchObject({ ok: false });
  });
});
