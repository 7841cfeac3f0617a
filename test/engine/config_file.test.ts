/** Configuration files and price sheets as their users write them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readConfigFile, readPricesFile } from "../../src/engine/config/config.ts";

const dir = mkdtempSync(join(tmpdir(), "perigee-config-"));
const path = join(dir, "c.json");
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** What is said of a file with this text. */
async function saidOf(
  text: string,
  read: (path: string) => Promise<unknown> = readConfigFile,
): Promise<string> {
  writeFileSync(path, text);
  try {
    return JSON.stringify(await read(path));
  } catch (error) {
    const { code, message } = error as { code: string; message: string };
    return `${code}: ${message.replaceAll(path, "c.json")}`;
  }
}

const PRICE = '"input_mtok":1,"output_mtok":2';

describe("a configuration file", () => {
  it("with a name twice in one object is refused with the place, because one of them would be ignored", async () => {
    expect(await saidOf('{"maxInFlight":8,"limits":{},"maxInFlight":9}')).toBe(
      "invalid_config: c.json at maxInFlight: the name occurs twice in one object; keep one of them",
    );
    expect(await saidOf('{"providers":{"openai":{"key":"a","k\\u0065y":"b"}}}')).toBe(
      "invalid_config: c.json at providers.openai.key: the name occurs twice in one object; keep one of them",
    );
    expect(await saidOf('{"limits":{"openai:mini":{"concurrency":1,"concurrency":1}}}')).toBe(
      'invalid_config: c.json at limits["openai:mini"].concurrency: the name occurs twice in one object; keep one of them',
    );
    expect(await saidOf('{"egressPorts":[1,{"a":1},{"a":1,"a":2}]}')).toBe(
      "invalid_config: c.json at egressPorts[2].a: the name occurs twice in one object; keep one of them",
    );
    expect(await saidOf('{"limits":{"a":{"concurrency":1},"b":{"concurrency":1}}}')).toContain("concurrency");
  });

  it("that is not an object is refused, an empty list too", async () => {
    for (const [text, kind] of [
      ["[]", "array"],
      ["[{}]", "array"],
      ["null", "null"],
      ['"x"', "string"],
    ])
      expect(await saidOf(text ?? "")).toBe(
        `invalid_config: c.json: Invalid input: expected object, received ${kind}`,
      );
    expect(await saidOf("{}")).toBe("{}");
    expect(await saidOf("\ufeff{}")).toBe("{}");
    expect(await saidOf("")).toBe("invalid_config: c.json is not JSON: it is empty");
    for (const [text, place] of [
      ['{"limits":', "it ends too early"],
      ['{"limits": {', "it ends too early"],
      ['{"hedge": tru', "it ends too early"],
      ['{\n  "hedge": true\n  "maxInFlight": 5\n}', "line 3, column 3"],
      ['{\n  "hedge": True\n}', "line 2, column 12"],
      ['{\n  "hedge": true,\n}\n', "line 3, column 1"],
      [
        `{"providers": {"openai": {"key": "sk-secret", "baseUrl": x}}, "more": "${"y".repeat(500)}"}`,
        "line 1, column 58",
      ],
      ["hedge: true", "line 1, column 1"],
    ] as const)
      expect(await saidOf(text)).toBe(`invalid_config: c.json is not JSON: ${place}`);
  });

  it("that is nested too deeply is refused", async () => {
    expect(await saidOf(`{"limits":${"[".repeat(5_000)}${"]".repeat(5_000)}}`)).toBe(
      "invalid_config: c.json is nested deeper than 64 levels",
    );
  });
});

describe("a price sheet", () => {
  it("with a name twice in one object is refused with the place", async () => {
    expect(
      await saidOf(`{"version":"a","models":{"openai:x":{${PRICE}},"openai:x":{${PRICE}}}}`, readPricesFile),
    ).toBe(
      'invalid_config: c.json at models["openai:x"]: the name occurs twice in one object; keep one of them',
    );
    expect(
      await saidOf(`{"version":"a","models":{"openai:x":{${PRICE},"input_mtok":3}}}`, readPricesFile),
    ).toBe(
      'invalid_config: c.json at models["openai:x"].input_mtok: the name occurs twice in one object; keep one of them',
    );
  });

  it("inside a configuration is refused alike", async () => {
    expect(await saidOf(`{"prices":{"version":"a","version":"b","models":{}}}`)).toBe(
      "invalid_config: c.json at prices.version: the name occurs twice in one object; keep one of them",
    );
  });
});
