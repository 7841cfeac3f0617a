/**
 * The types of perigee/ai are those of the AI SDK, though nothing of it is loaded: compared by the compiler.
 */
import type {
  EmbeddingModelV2,
  EmbeddingModelV3,
  EmbeddingModelV3CallOptions,
  LanguageModelV2,
  LanguageModelV2CallOptions,
  LanguageModelV3,
  LanguageModelV3CallOptions,
  ProviderV2,
  ProviderV3,
} from "@ai-sdk/provider";
import { APICallError, NoSuchModelError } from "@ai-sdk/provider";
import { createProviderRegistry, type EmbeddingModel, type LanguageModel } from "ai";
import { describe, expect, expectTypeOf, it } from "vitest";
import {
  type CalledEmbeddingModel,
  type CalledModel,
  createPerigee,
  type EmbeddingCall,
  type ModelCall,
  modelProvider,
} from "../../src/ai/index.ts";
import type { ConfigOptions, Engine } from "../../src/index.ts";

/** Never called here. */
const engine = { submit: () => undefined } as unknown as Engine;

describe("a provider of perigee", () => {
  it("is a ProviderV3 with models of version 3, which generateText takes, unless another version is chosen", () => {
    const perigee = createPerigee(engine);
    expectTypeOf(perigee("openai:gpt-5-mini")).toExtend<LanguageModelV3>();
    expectTypeOf(perigee("openai:gpt-5-mini")).toExtend<LanguageModel>();
    expectTypeOf(perigee.embeddingModel("openai:text-embedding-3-small")).toExtend<EmbeddingModelV3>();
    expectTypeOf(perigee.embeddingModel("openai:text-embedding-3-small")).toExtend<EmbeddingModel>();
    perigee satisfies ProviderV3;
    const registry = createProviderRegistry({ perigee });
    expect(registry.languageModel("perigee:openai:gpt-5-mini")).toMatchObject({
      specificationVersion: "v3",
      provider: "perigee",
      modelId: "openai:gpt-5-mini",
    });
    expect(registry.embeddingModel("perigee:openai:text-embedding-3-small")).toMatchObject({
      specificationVersion: "v3",
      provider: "perigee",
      modelId: "openai:text-embedding-3-small",
    });
  });

  it("is a ProviderV2 with models of version 2", () => {
    const perigee = createPerigee(engine, { version: "v2" });
    perigee satisfies ProviderV2;
    expectTypeOf(perigee.languageModel("openai:gpt-5-mini")).toExtend<LanguageModelV2>();
    expectTypeOf(perigee.textEmbeddingModel("openai:x")).toExtend<EmbeddingModelV2<string>>();
    expect(perigee.textEmbeddingModel("openai:x").specificationVersion).toBe("v2");
    expect(perigee("openai:gpt-5-mini").specificationVersion).toBe("v2");
  });

  it("says of other kinds of models that it has none, as the AI SDK expects it", () => {
    const perigee = createPerigee(engine);
    expectTypeOf(perigee.imageModel).returns.toBeNever();
    expect(() => perigee.imageModel("openai:x")).toThrow(
      expect.toSatisfy((error) => NoSuchModelError.isInstance(error) && !APICallError.isInstance(error)),
    );
  });

  it("takes the calls of both versions", () => {
    expectTypeOf<LanguageModelV2CallOptions>().toExtend<ModelCall>();
    expectTypeOf<LanguageModelV3CallOptions>().toExtend<ModelCall>();
    expectTypeOf<EmbeddingModelV3CallOptions>().toExtend<EmbeddingCall>();
    expectTypeOf<Parameters<EmbeddingModelV2<string>["doEmbed"]>[0]>().toExtend<EmbeddingCall>();
  });

  it("takes models of both versions as providers", () => {
    expectTypeOf<LanguageModelV2>().toExtend<CalledModel>();
    expectTypeOf<LanguageModelV3>().toExtend<CalledModel>();
    expectTypeOf<EmbeddingModelV2<string>>().toExtend<CalledEmbeddingModel>();
    expectTypeOf<EmbeddingModelV3>().toExtend<CalledEmbeddingModel>();
    expectTypeOf(modelProvider).returns.toExtend<
      NonNullable<NonNullable<ConfigOptions["providers"]>[string]>
    >();
  });

  it.each([
    [undefined, {}, "expected an engine, or { url, apiKey }"],
    [{ url: "perigee.test", apiKey: "k" }, {}, "whose url is absolute"],
    [{ url: "http://perigee.test" }, {}, "{ url, apiKey }"],
    [engine, { version: "v5" }, 'version must be "v2", "v3" or "v4", got "v5"'],
    [engine, { sla: 0.5 }, "sla must be whole minutes"],
    [engine, { id: "" }, "id must be a text"],
    [engine, { retentionDays: 0 }, "retentionDays must be 1 to 3650, got 0"],
    [{ url: "http://perigee.test", apiKey: "k" }, { retentionDays: 5 }, "retentionDays is for an engine"],
  ])("refuses %j with %j", (source, options, words) => {
    expect(() => createPerigee(source as never, options as never)).toThrow(words);
  });
});
