import { describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { createProvider, defaultSettings, KNOWN_PROVIDERS } from "../../src/providers/index.ts";
import { provider } from "./answers.ts";

describe("a provider's head", () => {
  it.each([
    ["openai", "m", "https://api.openai.com", "/v1/chat/completions"],
    ["anthropic", "m", "https://api.anthropic.com", "/v1/messages"],
    [
      "gemini",
      "gemini-3.8-flash",
      "https://generativelanguage.googleapis.com",
      "/v1beta/models/gemini-3.8-flash:generateContent",
    ],
    [
      "google",
      "tunedModels/a",
      "https://generativelanguage.googleapis.com",
      "/v1beta/tunedModels/a:generateContent",
    ],
    [
      "gemini",
      "a b?c#é\ud800",
      "https://generativelanguage.googleapis.com",
      "/v1beta/models/a%20b%3Fc%23%C3%A9%EF%BF%BD:generateContent",
    ],
    ["deepseek", "m", "https://api.deepseek.com", "/chat/completions"],
    ["groq", "m", "https://api.groq.com", "/openai/v1/chat/completions"],
    ["together", "m", "https://api.together.ai", "/v1/chat/completions"],
    ["fireworks", "m", "https://api.fireworks.ai", "/inference/v1/chat/completions"],
    ["openrouter", "m", "https://openrouter.ai", "/api/v1/chat/completions"],
    ["mistral", "m", "https://api.mistral.ai", "/v1/chat/completions"],
    ["vllm", "m", "http://127.0.0.1:8000", "/v1/chat/completions"],
    ["sglang", "m", "http://127.0.0.1:30000", "/v1/chat/completions"],
    ["llamacpp", "m", "http://127.0.0.1:8080", "/v1/chat/completions"],
    ["ollama", "m", "http://127.0.0.1:11434", "/v1/chat/completions"],
  ])("of %s for model %j is %s%s", (name, model, origin, path) => {
    expect(provider(name).head(model)).toMatchObject({ origin, path });
  });

  it.each([
    "../../x",
    "..",
    "models/../../x",
    "tunedModels/../x",
    "/x",
    "a/../../b",
    "..%2fx",
    "x:countTokens",
    "x?key=mine#",
    "x\\..\\y",
    "x\r\nhost: y",
  ])("leads to no other path for a model called %j, with any codec", (model) => {
    for (const name of KNOWN_PROVIDERS.keys()) {
      const { origin, path } = provider(name).head(model);
      const usual = provider(name).head("usual");
      if (usual.path === "") continue; // it is not asked over a wire
      expect(new URL(path, "http://host").pathname.split("/")).toHaveLength(usual.path.split("/").length);
      const [head, tail] = usual.path.split("usual");
      const collection = head?.replace(
        /models\/$/,
        model.startsWith("tunedModels/") ? "tunedModels/" : "models/",
      );
      expect([origin, path.startsWith(collection ?? ""), path.endsWith(tail ?? "")]).toEqual([
        usual.origin,
        true,
        true,
      ]);
      expect(path).not.toMatch(/[\s?#\\]|\/\.\.?(\/|$)/);
    }
  });

  it("carries the key where the protocol wants it, and sends no key without one", () => {
    expect(provider("openai", { key: "k" }).head("m").headers).toMatchObject({ authorization: "Bearer k" });
    expect(provider("anthropic", { key: "k" }).head("m").headers).toMatchObject({
      "x-api-key": "k",
      "anthropic-version": "2023-06-01",
    });
    expect(provider("gemini", { key: "k" }).head("m").headers).toMatchObject({ "x-goog-api-key": "k" });
    expect(provider("vllm").head("m").headers).not.toHaveProperty("authorization");
  });

  it("takes more headers, in any case, over its own", () => {
    const codec = provider("openai", { headers: { "User-Agent": "mine", "api-key": "k" } });
    expect(codec.head("m").headers).toMatchObject({ "user-agent": "mine", "api-key": "k" });
  });

  it("keeps a version and a query that the base URL has already", () => {
    expect(provider("anthropic", { baseUrl: "http://proxy/v1/" }).head("m").path).toBe("/v1/messages");
    expect(provider("gemini", { baseUrl: "http://proxy/v1" }).head("m").path).toBe(
      "/v1/models/m:generateContent",
    );
    expect(provider("openai", { baseUrl: "https://a.azure.com/x?api-version=1" }).head("m").path).toBe(
      "/x/chat/completions?api-version=1",
    );
  });
});

describe("settings", () => {
  it("of a name nobody knows are those of an OpenAI-compatible server, when there is a base URL", () => {
    expect(defaultSettings("mybox")).toBeUndefined();
    expect(defaultSettings("mybox", "http://10.0.0.1/v1")).toEqual({
      name: "mybox",
      protocol: "openai",
      baseUrl: "http://10.0.0.1/v1",
    });
    expect(defaultSettings("constructor")).toBeUndefined();
  });

  it("of a known name keep its protocol under another base URL", () => {
    expect(defaultSettings("anthropic", "http://proxy")).toEqual({
      name: "anthropic",
      protocol: "anthropic",
      baseUrl: "http://proxy",
      apiVersion: "2023-06-01",
    });
  });

  it("with an invalid base URL, or one that holds a password, are refused without showing it", () => {
    for (const baseUrl of ["", "localhost:8000", "ftp://host/v1", "https://me:secret@host/v1"]) {
      const create = (): unknown => createProvider({ name: "x", protocol: "openai", baseUrl });
      expect(create).toThrow(PerigeeError);
      expect(create).not.toThrow(/secret/);
    }
  });

  it("exist for every known provider, with the ecosystem's variables", () => {
    for (const [name, known] of KNOWN_PROVIDERS) {
      expect(createProvider(defaultSettings(name)!).settings.protocol).toBe(known.protocol);
      if (known.needsKey) expect(known.keyVariables[0]).toMatch(/^[A-Z]+_API_KEY$/);
    }
    expect(KNOWN_PROVIDERS.get("gemini")?.keyVariables).toEqual(["GEMINI_API_KEY", "GOOGLE_API_KEY"]);
    expect(KNOWN_PROVIDERS.get("openai")?.baseUrlVariables).toEqual(["OPENAI_BASE_URL"]);
  });
});
