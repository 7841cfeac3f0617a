import { describe, expect, it } from "vitest";
import { itemLine } from "../../src/jsonl/items.ts";
import { parseLine } from "../../src/jsonl/layout.ts";

const OPTIONS = { providers: new Set(["openai"]) };

describe("itemLine", () => {
  it("writes keyed items as they are and inline items in the interface's layout", () => {
    const keyed = { key: "a", request: { model: "openai:m", contents: [{ parts: [{ text: "x\ny" }] }] } };
    expect(itemLine(keyed)).toBe(JSON.stringify(keyed));
    expect(itemLine({ key: "a", model: "openai:m", input: "x\ny" })).toBe(JSON.stringify(keyed));
    expect(parseLine(Buffer.from(itemLine(keyed)), OPTIONS).kind).toBe("item");
  });

  it("writes the settings of an inline item where a file's line has them", () => {
    const line = itemLine({
      key: "a",
      model: "openai:m",
      input: "x",
      generation_config: { temperature: 0.5 },
    });
    expect(parseLine(Buffer.from(line), OPTIONS)).toMatchObject({
      request: { config: { temperature: 0.5 } },
    });
  });

  it("writes what an inline item may say beside its settings", () => {
    const line = itemLine({
      key: "a",
      model: "openai:m",
      input: "x",
      sla: 5,
      system: "s",
      max_tokens: 3,
      stop: "E",
    });
    expect(parseLine(Buffer.from(line), OPTIONS)).toMatchObject({
      request: { system: ["s"], config: { maxOutputTokens: 3, stopSequences: ["E"] } },
    });
  });

  it("refuses a member that is not known, with the one that was meant, and shows no text in its place", () => {
    const refusal =
      (more: object): (() => string) =>
      () =>
        itemLine({ key: "a", model: "openai:m", input: "x", ...more }, "item 3");
    expect(refusal({ max_token: 5 })).toThrow(
      'item 3: "max_token" is not a known name; did you mean "max_tokens"?',
    );
    expect(refusal({ temprature: 0 })).toThrow(
      'item 3: "temprature" is not a known name; did you mean "temperature"?',
    );
    expect(refusal({ tools: [] })).toThrow(
      'item 3: "tools" is not a known name; expected one of key, model, input,',
    );
    expect(refusal({ "a whole prompt": 0 })).toThrow("item 3 has a member whose name is not known");
  });

  it("writes any text of an inline item as JSON does", () => {
    for (const text of ['"', "\\", "\n\0", "\u2028", "\ud800", "perigee-number:"]) {
      const request = { model: text, contents: [{ parts: [{ text }] }] };
      expect(itemLine({ key: text, model: text, input: text })).toBe(JSON.stringify({ key: text, request }));
    }
  });

  it("fault 14: writes a bigint with all its digits", () => {
    const item = { custom_id: "a", body: { seed: 12345678901234567890n as unknown as number } };
    expect(itemLine(item)).toBe('{"custom_id":"a","body":{"seed":12345678901234567890}}');
  });

  it("refuses what JSON would change in silence, naming the item", () => {
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    for (const request of [{ seed: Number.NaN }, { f: () => 1 }, { n: Number.POSITIVE_INFINITY }, cycle])
      expect(() => itemLine({ key: "a", request: request as Record<string, never> }, "item 3")).toThrow(
        /^item 3 /,
      );
    for (const item of [null, 5, "x", []])
      expect(() => itemLine(item as unknown as { key: string; request: object } as never)).toThrow(
        /must be an object/,
      );
  });
});
