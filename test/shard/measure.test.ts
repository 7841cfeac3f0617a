import { describe, expect, it } from "vitest";
import { BlockMeasurer, type MeasureOptions } from "../../src/shard/measure.ts";
import type { MeasuredBlock } from "../../src/shard/measured.ts";
import { blockOf, lineOf, SETTINGS } from "./blocks.ts";

const WANTED: MeasureOptions = { wantBodies: true };

describe("BlockMeasurer", () => {
  it("measures each line: its place, its tokens, its limit, its key and its body", () => {
    const first = lineOf("k1", "Hello world", { model: "openai:gpt-4o" });
    const second = JSON.stringify({
      key: 'k"2',
      request: {
        model: "openai:gpt-4o",
        contents: [{ parts: [{ text: "Hello world, again" }] }],
        generation_config: { max_output_tokens: 33 },
      },
    });
    const block = blockOf(`${first}\r\n${second}\n`, { offset: 500, firstLine: 7 });
    const measured = new BlockMeasurer(SETTINGS).measure(block, WANTED);
    expect(measured.count).toBe(2);
    expect([...measured.lines]).toEqual([7, 8]);
    expect([...measured.offsets]).toEqual([500, 500 + first.length + 2]);
    expect([...measured.lengths]).toEqual([first.length, second.length]);
    expect(measured.inputTokens[0]).toBeGreaterThan(2);
    expect(measured.inputTokens[1]).toBe((measured.inputTokens[0] as number) + 2);
    expect([...measured.maxOutputTokens]).toEqual([0, 33]);
    expect(measured.groups.map((group) => group.model)).toEqual(["openai:gpt-4o"]);
    expect(keysOf(measured)).toEqual(['"k1"', '"k\\"2"']);
    expect(JSON.parse(bodiesOf(measured)[0] as string)).toMatchObject({
      model: "gpt-4o",
      messages: [{ role: "user", content: "Hello world" }],
    });
  });

  it("groups lines by model and by system instruction", () => {
    const lines = [
      lineOf("1", "a", { system: "be kind" }),
      lineOf("2", "a", { system: "be brief" }),
      lineOf("3", "a", { system: "be kind" }),
      lineOf("4", "a"),
      lineOf("5", "a", { model: "echo:b", system: "be kind" }),
    ];
    const measured = measure(lines.join("\n"));
    expect([...measured.groupOf]).toEqual([0, 1, 0, 2, 3]);
    const [kind, brief, none, other] = measured.groups;
    expect(kind?.prefixHash).toBe(other?.prefixHash);
    expect(kind?.prefixHash).not.toBe(brief?.prefixHash);
    expect(kind?.prefixTokens).toBeGreaterThan(0);
    expect([none?.prefixHash, none?.prefixTokens]).toEqual([0, 0]);
  });

  it("rejects only a bad line, with its number and with its key where that can be read", () => {
    const bad = lineOf("bad", "x", { model: "nobody:a" });
    const measured = measure(["{", lineOf("a", "x"), "", bad, "  ", lineOf("b", "x")].join("\n"));
    expect(keysOf(measured)).toEqual(['"a"', '"b"']);
    expect(measured.blankLines).toBe(2);
    expect(measured.rejected.map(({ line, key, code }) => ({ line, key, code }))).toEqual([
      { line: 1, key: null, code: "invalid_json" },
      { line: 4, key: "bad", code: "provider_missing" },
    ]);
  });

  it("rejects a line that is not UTF-8 and keeps the others of its block", () => {
    const bytes = Buffer.concat([
      Buffer.from(`${lineOf("a", "x")}\n`),
      Buffer.from([0x22, 0xff, 0xfe, 0x22, 0x0a]),
      Buffer.from(lineOf("b", "日本語")),
    ]);
    const measured = new BlockMeasurer(SETTINGS).measure(blockOf(bytes), WANTED);
    expect(keysOf(measured)).toEqual(['"a"', '"b"']);
    expect(measured.rejected.map(({ line, code }) => [line, code])).toEqual([[2, "invalid_utf8"]]);
  });

  it("rejects what the provider's codec refuses, under the line's key", () => {
    const line = JSON.stringify({
      custom_id: "picture",
      body: {
        model: "anthropic:claude-sonnet-4-5",
        messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }],
      },
    });
    expect(measure(line).rejected).toMatchObject([{ line: 1, key: "picture", code: "unsupported_request" }]);
  });

  it("rejects a line above the bound of bytes", () => {
    const settings = { ...SETTINGS, lineBytesMax: 100 };
    const block = blockOf([lineOf("long", "x".repeat(200)), lineOf("a", "x")].join("\n"));
    const measured = new BlockMeasurer(settings).measure(block, WANTED);
    expect(keysOf(measured)).toEqual(['"a"']);
    expect(measured.rejected).toMatchObject([{ line: 1, key: null, code: "line_too_long" }]);
  });

  it("passes over lines whose bit is set, unread", () => {
    const lines = Array.from({ length: 20 }, (_, index) => (index === 3 ? "{" : lineOf(`${index}`, "x")));
    const skip = new Uint8Array([0b0000_1010, 0xff]);
    const measured = measure(lines.join("\n"), { ...WANTED, skip });
    expect([...measured.lines]).toEqual([1, 3, 5, 6, 7, 8, 17, 18, 19, 20]);
    expect(measured.rejected).toEqual([]);
  });

  it("puts every line to one model when it is set", () => {
    const measured = measure([lineOf("1", "x"), lineOf("2", "x", { model: "nobody:a" })].join("\n"), {
      ...WANTED,
      modelOverride: "openai:gpt-4o",
    });
    expect(measured.groups.map((group) => group.model)).toEqual(["openai:gpt-4o"]);
    expect(measured.count).toBe(2);
  });

  it("gives items without an output limit the cap, in their numbers and in their bodies", () => {
    const batch = JSON.stringify({
      custom_id: "2",
      body: { model: "gpt-4o", messages: [{ role: "user", content: "x" }], top_p: 1 },
    });
    const own = JSON.stringify({
      custom_id: "3",
      body: { model: "gpt-4o", messages: [{ role: "user", content: "x" }], max_tokens: 9 },
    });
    const lines = [lineOf("1", "x", { model: "openai:gpt-4o" }), batch, own];
    const measured = measure(lines.join("\n"), {
      ...WANTED,
      cap: { outputTokens: 50, allowsUnbounded: false },
    });
    expect([...measured.maxOutputTokens]).toEqual([50, 50, 9]);
    const limits = bodiesOf(measured).map((body) => {
      const { max_tokens, max_completion_tokens } = JSON.parse(body);
      return { max_tokens, max_completion_tokens };
    });
    expect(limits).toEqual([
      { max_tokens: undefined, max_completion_tokens: 50 },
      { max_tokens: undefined, max_completion_tokens: 50 },
      { max_tokens: undefined, max_completion_tokens: 9 }, // OpenAI's reasoning models refuse the old name
    ]);
  });

  it("limits the output under both names where the provider under a cap is not known", () => {
    const both = {
      body: { model: "m", messages: [{ role: "user", content: "x" }], max_completion_tokens: 7 },
    };
    const lines = [lineOf("1", "x", { model: "mine:m" }), JSON.stringify({ custom_id: "2", ...both })];
    const cap = { outputTokens: 50, allowsUnbounded: false };
    const limitsOf = (options: object): unknown =>
      bodiesOf(measure(lines.join("\n"), { ...WANTED, modelOverride: "mine:m", ...options })).map((body) => {
        const { max_tokens, max_completion_tokens } = JSON.parse(body);
        return [max_tokens, max_completion_tokens];
      });
    expect(limitsOf({ cap })).toEqual([
      [50, 50],
      [7, 7],
    ]);
    expect(limitsOf({})).toEqual([
      [undefined, undefined],
      [undefined, 7],
    ]);
  });

  it("writes numbers beyond 2^53 with their own digits", () => {
    const line =
      '{"custom_id":"a","body":{"model":"gpt-4o","seed":123456789012345678901,"messages":[{"role":"user","content":"x"}]}}';
    expect(bodiesOf(measure(line))[0]).toContain('"seed":123456789012345678901');
  });

  it("marks items whose text was changed", () => {
    const whole = lineOf("1", "x");
    const lone = lineOf("2", "x").replace('"x"', '"\\ud800"');
    const { warnings, warningLists } = measure([whole, lone].join("\n"));
    expect([...warnings]).toEqual([0, 1]);
    expect(warningLists).toEqual(['[{"code":"text_replaced"}]']);
  });

  it("keeps no bodies when they are not wanted, and counts the same", () => {
    const text = [lineOf("1", "x y z"), lineOf("2", "x")].join("\n");
    const counted = measure(text, { wantBodies: false });
    expect(counted.bodies.byteLength).toBe(0);
    expect([...counted.bodyEnds]).toEqual([0, 0]);
    expect([...counted.inputTokens]).toEqual([...measure(text).inputTokens]);
  });

  it("gives arrays that own their buffers, so that they can be transferred", () => {
    const measured = measure([lineOf("1", "x"), "", lineOf("2", "x")].join("\n"));
    for (const array of [
      measured.lines,
      measured.offsets,
      measured.keys,
      measured.bodies,
      measured.groupOf,
    ]) {
      expect(array.buffer.byteLength).toBe(array.byteLength);
    }
  });

  it("keeps nothing of a block for the next", () => {
    const measurer = new BlockMeasurer(SETTINGS);
    measurer.measure(blockOf(["{", "", lineOf("1", "x", { system: "s" })].join("\n")), WANTED);
    const measured = measurer.measure(blockOf(lineOf("2", "x")), WANTED);
    expect(measured).toMatchObject({ count: 1, rejected: [], blankLines: 0, groups: [{ prefixHash: 0 }] });
    expect(keysOf(measured)).toEqual(['"2"']);
  });
});

function measure(text: string, options: MeasureOptions = WANTED): MeasuredBlock {
  return new BlockMeasurer(SETTINGS).measure(blockOf(text), options);
}

function keysOf(measured: MeasuredBlock): string[] {
  return textsOf(measured.keys, measured.keyEnds);
}

function bodiesOf(measured: MeasuredBlock): string[] {
  return textsOf(measured.bodies, measured.bodyEnds);
}

function textsOf(bytes: Uint8Array, ends: Uint32Array): string[] {
  return Array.from(ends, (end, index) => Buffer.from(bytes.subarray(ends[index - 1] ?? 0, end)).toString());
}
