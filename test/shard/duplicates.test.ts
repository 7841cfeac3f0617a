import { describe, expect, it } from "vitest";
import type { ReaderEvent } from "../../src/jsonl/block.ts";
import { findDuplicate } from "../../src/shard/duplicates.ts";
import { createInlineMeasurer } from "../../src/shard/measurer.ts";
import { blocksOf, lineOf, SETTINGS } from "./blocks.ts";

const measurer = createInlineMeasurer(SETTINGS);

describe("findDuplicate", () => {
  it("counts the lines of an input without duplicates, blank and broken ones included", async () => {
    const text = [lineOf("a", "x"), "", "{", lineOf("b", "x"), lineOf("B", "x")].join("\n");
    expect(await findDuplicate(() => blocksOf(text, 2), measurer)).toEqual({ kind: "unique", lines: 5 });
  });

  it("names the key and both lines, of several duplicates the one that ends first", async () => {
    const text = ["z", "a", "b", "b", "a", "z"].map((key) => lineOf(key, "x")).join("\n");
    const answer = await findDuplicate(() => blocksOf(text, 2), measurer);
    expect(answer).toEqual({ kind: "duplicate", key: "b", firstLine: 3, secondLine: 4 });
  });

  it("finds equal keys however they are written, and in both layouts", async () => {
    const batch = '{"custom_id":"k\\u0065y","body":{}}';
    const answer = await findDuplicate(() => blocksOf([lineOf("key", "x"), batch].join("\n"), 1), measurer);
    expect(answer).toEqual({ kind: "duplicate", key: "key", firstLine: 1, secondLine: 2 });
  });

  it("tells NFC from NFD, and takes __proto__ for a key like any other", async () => {
    const text = ["\u00e9", "e\u0301", "__proto__", "constructor"].map((key) => lineOf(key, "x")).join("\n");
    expect(await findDuplicate(() => blocksOf(text, 9), measurer)).toEqual({ kind: "unique", lines: 4 });
  });

  it("does not take a broken line for the first or second of a pair", async () => {
    const text = ['{"key":"a",', lineOf("a", "x"), '{"key":"a" "b"}', lineOf("b", "x")].join("\n");
    expect(await findDuplicate(() => blocksOf(text, 9), measurer)).toEqual({ kind: "unique", lines: 4 });
  });

  it("stops early at a key that is repeated from the start", async () => {
    let blocksRead = 0;
    async function* endless(): AsyncGenerator<ReaderEvent> {
      const text = Array.from({ length: 100 }, () => lineOf("same", "x")).join("\n");
      for (let block = 0; ; block += 1) {
        blocksRead += 1;
        for await (const event of blocksOf(text, 100)) {
          if (event.kind === "block") {
            yield { kind: "block", block: { ...event.block, firstLine: block * 100 + 1 } };
          }
        }
      }
    }
    const answer = await findDuplicate(endless, measurer);
    expect(answer).toEqual({ kind: "duplicate", key: "same", firstLine: 1, secondLine: 2 });
    expect(blocksRead).toBeLessThan(20);
  });

  it("passes over lines that the reader refused, and counts them", async () => {
    async function* withRefused(): AsyncGenerator<ReaderEvent> {
      yield* blocksOf(lineOf("a", "x"), 9);
      yield { kind: "refused", refused: { line: 2, offset: 100, lengthBytes: 99_999_999 } };
    }
    expect(await findDuplicate(withRefused, measurer)).toEqual({ kind: "unique", lines: 2 });
  });

  it("fails with the reader's error", async () => {
    async function* failing(): AsyncGenerator<ReaderEvent> {
      yield* blocksOf(lineOf("a", "x"), 9);
      throw new Error("EIO");
    }
    await expect(findDuplicate(failing, measurer)).rejects.toThrow("EIO");
  });
});
