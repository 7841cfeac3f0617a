/** Upper bounds of input tokens for models whose tokenizer is not at hand. */
import { expect, it } from "vitest";
import { BlockMeasurer } from "../../src/shard/measure.ts";
import { blockOf, lineOf, SETTINGS } from "./blocks.ts";

it.each([
  ["digits", "31415926535897932384626433".repeat(20)],
  ["a table of numbers", "3.14159,27182.8;161803\n".repeat(40)],
  ["signs", "{}[]();:,.!?".repeat(40)],
])("bound %s by a token a character, as some vocabularies have them", (_, text) => {
  const line = lineOf("a", text, { model: "anthropic:claude-opus-4-7" });
  const { most } = new BlockMeasurer(SETTINGS).measure(blockOf(line), { wantBodies: true });
  expect(most[0]).toBeGreaterThanOrEqual(text.replace(/\s/g, "").length);
});

it("bound words by half as much again as was counted, and never by more than their bytes", () => {
  const text = "the quick brown fox jumps over the lazy dog ".repeat(20);
  const line = lineOf("a", text, { model: "anthropic:claude-opus-4-7" });
  const measured = new BlockMeasurer(SETTINGS).measure(blockOf(line), { wantBodies: true });
  const counted = measured.inputTokens[0] as number;
  expect(measured.most[0]).toBeGreaterThanOrEqual(Math.ceil(counted * 1.5));
  expect(measured.most[0]).toBeLessThan(counted * 1.5 + 64);
});
