/** Lanes and families of models. */
import { describe, expect, it } from "vitest";
import { familyOf, laneKey } from "../../src/queue/lanes.ts";

describe("laneKey", () => {
  it("differs wherever lanes differ, also when a family holds colons", () => {
    const keys = [
      laneKey("openai", "realtime", "gpt-4o"),
      laneKey("openrouter", "realtime", "realtime:gpt-4o"),
      laneKey("openrouter", "realtime", "gpt-4o"),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys[0]).toBe("openai:realtime:gpt-4o");
  });
});

describe("familyOf", () => {
  it.each([
    ["gpt-4o-mini-2024-07-18", "gpt-4o-mini"],
    ["claude-sonnet-4-20250514", "claude-sonnet-4"],
    ["claude-sonnet-4@20250514", "claude-sonnet-4"],
    ["mistral-large-latest", "mistral-large"],
    ["meta-llama/llama-3.3-70b-instruct:free", "meta-llama/llama-3.3-70b-instruct"],
    ["gemini-2.5-flash", "gemini-2.5-flash"],
    ["gpt-4-0613", "gpt-4-0613"],
    ["qwen3:8b", "qwen3:8b"],
    [":free", ":free"],
  ])("counts %s as %s", (model, family) => {
    expect(familyOf("any", model)).toBe(family);
  });

  it("follows the configuration: the exact name, else the longest beginning", () => {
    const families = {
      anthropic: { "claude-*": "claude", "claude-opus-4*": "opus", "claude-opus-4-1": "opus 4.1" },
      openai: {},
    };
    expect(familyOf("anthropic", "claude-opus-4-1", families)).toBe("opus 4.1");
    expect(familyOf("anthropic", "claude-opus-4-5-20251101", families)).toBe("opus");
    expect(familyOf("anthropic", "claude-haiku-4", families)).toBe("claude");
    expect(familyOf("openai", "gpt-4o-2024-08-06", families)).toBe("gpt-4o");
  });

  it("takes names that every object has as plain names", () => {
    expect(familyOf("constructor", "toString", {})).toBe("toString");
    expect(familyOf("openai", "__proto__", { openai: {} })).toBe("__proto__");
  });
});
