/** Aliases of models: which a configuration may have, and what lines and calls may name. */
import { describe, expect, it } from "vitest";
import { checkOptions, resolveConfig } from "../../src/engine/config/config.ts";
import { answeringMember, modelAliases } from "../../src/engine/config/model_aliases.ts";
import { parseLine } from "../../src/jsonl/layout.ts";
import { finish } from "./runs.ts";
import { World } from "./world.ts";

const GROQ = "groq:llama-3.3-70b-versatile";
const TOGETHER = "together:meta-llama/Llama-3.3-70B-Instruct-Turbo";

describe("the aliases of a configuration", () => {
  it("are read from a file and from code", async () => {
    const options = await checkOptions({ models: { "llama-70b": [GROQ, TOGETHER] } }, "perigee.json");
    const { aliases } = resolveConfig(options, {});
    expect(aliases.members.get("llama-70b")).toEqual([GROQ, TOGETHER]);
    expect(aliases.first).toEqual({ "llama-70b": GROQ });
  });

  it.each([
    [{ "groq:llama": [GROQ] }, 'models["groq:llama"]: an alias must not contain ":"'],
    [
      { openai: [GROQ] },
      'models["openai"]: an alias must not be like the name of a provider, which is "openai"',
    ],
    [{ opnai: [GROQ] }, 'which is "openai"'],
    [{ "two words": [GROQ] }, 'models["two words"]: an alias must be 1 to 128 letters'],
    [
      { "llama-70b": [] },
      'models["llama-70b"]: the list is empty; expected at least one "<provider>:<model>"',
    ],
    [{ "llama-70b": ["llama"] }, 'models["llama-70b"][0]: expected "<provider>:<model>", got "llama"'],
    [
      { "llama-70b": [GROQ, "togehter:llama"] },
      'models["llama-70b"][1]: provider "togehter" is not configured; did you mean "together"?',
    ],
    [{ "llama-70b": [GROQ, GROQ] }, `models["llama-70b"][1]: "${GROQ}" occurs twice; keep one of them`],
  ])("are refused as %j with the place and what was expected", (models, message) => {
    expect(() => resolveConfig({ models }, {})).toThrow(message);
  });
});

describe("a line whose model is an alias", () => {
  const options = {
    providers: new Set(["groq", "openai"]),
    aliases: { "llama-70b": GROQ },
    depthMax: 64,
    keyBytesMax: 512,
    isUtf8: true,
  };
  const bytes = (line: object): Uint8Array => Buffer.from(JSON.stringify(line));
  const contents = [{ role: "user", parts: [{ text: "hello" }] }];

  it("is read with its first model, in both layouts", () => {
    const own = { key: "a", request: { model: "llama-70b", contents } };
    const body = { model: "llama-70b", messages: [{ role: "user", content: "hello" }] };
    const openai = { custom_id: "b", method: "POST", url: "/v1/chat/completions", body };
    for (const line of [own, openai])
      expect(parseLine(bytes(line), options)).toMatchObject({
        kind: "item",
        provider: "groq",
        model: "llama-3.3-70b-versatile",
        alias: "llama-70b",
      });
  });

  it("is unknown_model with the names of the aliases when no alias has its name", () => {
    const line = { key: "a", request: { model: "lama-70b", contents } };
    expect(parseLine(bytes(line), options)).toMatchObject({
      kind: "rejected",
      code: "unknown_model",
      message:
        'model must be "<provider>:<name>" or an alias ("llama-70b"), got "lama-70b"; did you mean "llama-70b"?',
    });
  });
});

describe("the model of a run", () => {
  const config = { models: { "llama-70b": ["alpha:m1", "beta:m2"] } };

  it("may be an alias", async () => {
    const world = new World({ config });
    world.input(3, "beta:other");
    const summary = await finish(world, { out: "/out.jsonl", model: "llama-70b" });
    expect(summary.counts.completed).toBe(3);
    expect(new Set(world.sent.map(({ model }) => model))).toEqual(new Set(["m1"]));
  });

  it("is a usage error when it is neither a model nor an alias", async () => {
    const world = new World({ config });
    const engine = await world.engine();
    expect(() => engine.run("/in.jsonl", { model: "lama-70b" })).toThrow(
      'run: model must be "<provider>:<name>" or an alias of the configuration, got "lama-70b"; did you mean "llama-70b"?',
    );
    expect(() => engine.quote("/in.jsonl", { model: "gpt-4o" })).toThrow('did you mean "openai:gpt-4o"?');
    await world.settle(engine.close());
  });
});

describe("an answer that was written before a crash and not recorded", () => {
  it("is priced by the model of the alias that its line names", () => {
    const aliases = modelAliases({ fast: ["alpha:m1", "beta:m2", "beta:m3"] }, new Set(["alpha", "beta"]));
    const named = (model: string | undefined) => answeringMember(aliases, "fast", "alpha:m1", model);
    expect(named("beta:m3")).toBe("beta:m3");
    expect(named("beta:m3-2026-01-01")).toBe("beta:m3");
    expect(named("beta:other")).toBe("beta:m2");
    expect(named("alpha:m1-1")).toBe("alpha:m1");
    expect(named(undefined)).toBe("alpha:m1");
    expect(answeringMember(aliases, undefined, "alpha:m1", "beta:m2")).toBe("alpha:m1");
  });
});
