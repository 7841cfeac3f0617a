/**
 * Which model a caller of the front names: an alias, a whole name, or OpenAI's by its name alone.
 */
import { describe, expect, it } from "vitest";
import { resolveConfig } from "../../src/engine/config/config.ts";
import { ServedModels } from "../../src/service/front/served_models.ts";

const models = new ServedModels(
  resolveConfig({}, { OPENAI_API_KEY: "sk-of-openai", ANTHROPIC_API_KEY: "sk-of-anthropic" }),
);

describe("a model that a caller names", () => {
  it("is OpenAI's without a provider, also where its own name holds colons", () => {
    expect(models.resolve("gpt-5-mini")).toBe("openai:gpt-5-mini");
    expect(models.resolve("ft:gpt-4o-mini:me::1")).toBe("openai:ft:gpt-4o-mini:me::1");
    expect(models.resolve("anthropic:claude-haiku-4-5")).toBe("anthropic:claude-haiku-4-5");
  });

  it("is refused with the provider that was meant where one letter of it is wrong, and not sent to OpenAI", () => {
    for (const name of ["antropic", "anthropics", "Anthropic", "anthropci"]) {
      expect(() => models.resolve(`${name}:claude-haiku-4-5`)).toThrow(
        `the model "${name}:claude-haiku-4-5" is not served here: did you mean the provider "anthropic"?`,
      );
    }
  });
});
