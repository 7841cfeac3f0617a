import { describe, expect, it } from "vitest";
import { nearest, suggestion } from "../src/nearest.ts";
import { unknownProviderMessage } from "../src/work/unknown_provider.ts";

const PROVIDERS = ["openai", "anthropic", "gemini", "groq", "echo"];

describe("the name that was meant", () => {
  it("is found through letters that are missing, added, changed or swapped", () => {
    const found = ["opnai", "opennai", "opemai", "opeani", "gorq", "Anthropic", "temprature"].map((name) =>
      nearest(name, [...PROVIDERS, "temperature"]),
    );
    expect(found).toEqual(["openai", "openai", "openai", "openai", "groq", "anthropic", "temperature"]);
  });

  it("is nobody where more than two letters or half of them differ", () => {
    expect(["azure", "x", "ge", "vertexai"].map((name) => nearest(name, PROVIDERS))).toEqual(
      Array(4).fill(undefined),
    );
  });

  it("is replaced by the names that there are, when they are few", () => {
    expect(suggestion("rpm", ["requestsPerMinute", "concurrency"])).toBe(
      "expected one of requestsPerMinute, concurrency",
    );
    expect(
      suggestion(
        "rpm",
        Array.from({ length: 13 }, (_, index) => `setting${index}`),
      ),
    ).toBe("");
  });
});

describe("a provider that is not configured", () => {
  it("is named with its line and the one that was meant", () => {
    expect(unknownProviderMessage("opnai", PROVIDERS, 12)).toBe(
      'provider "opnai" is not configured (line 12); did you mean "openai"?',
    );
  });

  it("is named with the variable that makes it known when no name is near", () => {
    expect(unknownProviderMessage("my-box", PROVIDERS, 1)).toBe(
      'provider "my-box" is not configured (line 1); set PERIGEE_PROVIDER_MY_BOX_BASE_URL, or providers.my-box.baseUrl in the configuration',
    );
  });

  it("is named without a variable when it could not be the name of one, and cut when it is long", () => {
    expect(unknownProviderMessage(`My Box ${"x".repeat(90)}`, PROVIDERS)).toBe(
      `provider "My Box ${"x".repeat(33)}..." is not configured; expected "<provider>:<name>" with the name of a configured provider`,
    );
  });
});
