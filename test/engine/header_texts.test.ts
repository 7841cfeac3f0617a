import { describe, expect, it } from "vitest";
import type { ConfigOptions } from "../../src/engine/config/config.ts";
import { resolveConfig } from "../../src/engine/config/config.ts";

type Environment = Readonly<Record<string, string>>;

const openai = (options: ConfigOptions, env: Environment) =>
  resolveConfig(options, env).providers.find(({ name }) => name === "openai");
const keyOf = (env: Environment, key?: string): string | undefined =>
  openai(key === undefined ? {} : { providers: { openai: { key } } }, env)?.key;

describe("a key", () => {
  it("is taken without the white space around it, wherever it is from", () => {
    expect(keyOf({ OPENAI_API_KEY: "sk-test\n" })).toBe("sk-test");
    expect(keyOf({ PERIGEE_PROVIDER_OPENAI_KEY: "\ufeff sk-test\r\n" })).toBe("sk-test");
    expect(keyOf({}, "\tsk-test ")).toBe("sk-test");
  });

  it("that is blank does not count, so that the next place does", () => {
    expect(keyOf({ PERIGEE_PROVIDER_OPENAI_KEY: "", OPENAI_API_KEY: "sk-test" })).toBe("sk-test");
    expect(keyOf({ OPENAI_API_KEY: " \n" })).toBeUndefined();
    expect(resolveConfig({}, { OPENAI_API_KEY: "\n" }).keysMissing.has("openai")).toBe(true);
  });

  it.each([
    ["sk-secret\u2019canary", "character 10 is U+2019"],
    ["\u200bsk-secret-canary", "character 1 is U+200B"],
    ["sk-secret\ncanary", "character 10 is U+000A"],
    ["sk-secret-canary\u{1f511}", "character 17 is U+1F511"],
  ])("that no header can carry is refused by its place and not shown (%j)", (key, fault) => {
    const end = `: ${fault}, which an HTTP header cannot carry; copy it again`;
    const refusal = (place: string) =>
      expect.objectContaining({ code: "invalid_config", message: `${place}${end}` });
    expect(() => keyOf({ OPENAI_API_KEY: key })).toThrow(refusal("OPENAI_API_KEY"));
    expect(() => keyOf({ PERIGEE_PROVIDER_OPENAI_KEY: key })).toThrow(refusal("PERIGEE_PROVIDER_OPENAI_KEY"));
    expect(() => keyOf({}, key)).toThrow(refusal("providers.openai.key"));
  });
});

it("headers are read in the same way", () => {
  const given = (value: string, env: Environment = {}) =>
    openai({ providers: { openai: { headers: { "x-team": value } } } }, env)?.headers;
  expect(given("b\u00e9ta\n", { OPENAI_ORG_ID: " org-1\n" })).toEqual({
    "x-team": "b\u00e9ta",
    "openai-organization": "org-1",
  });
  expect(() => given("a\nb")).toThrow("providers.openai.headers.x-team: character 2 is U+000A");
  expect(() => given("a", { OPENAI_ORG_ID: "\u200borg" })).toThrow("OPENAI_ORG_ID: character 1 is U+200B");
});
