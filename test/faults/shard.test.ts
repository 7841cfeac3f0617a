import { performance } from "node:perf_hooks";
import { afterAll, describe, expect, it } from "vitest";
import { findDuplicate } from "../../src/shard/duplicates.ts";
import { BlockMeasurer } from "../../src/shard/measure.ts";
import { Packer } from "../../src/shard/pack.ts";
import { createInlineMeasurer, createThreadMeasurer, type Poison } from "../../src/shard/pool.ts";
import { blockOf, blocksOf, lineOf, SETTINGS } from "../shard/blocks.ts";

const OPTIONS = { wantBodies: true };
const BOMB_CHARS = 500_000;

describe("fault 15: tokenizer bombs", () => {
  const threads = createThreadMeasurer({ ...SETTINGS, threads: 1 });
  afterAll(() => threads.close());

  it.each([
    ["a", "a"],
    ["a space", " "],
    ["a newline", "\n"],
    ["a CJK character", "\u6f22"],
    ["an emoji", "\u{1f642}"],
    ["a combining mark", "e\u0301"],
    ["digits", "7"],
  ])(
    "fault 15: a run of %s is counted in 250 ms and runs, and does not hold up this thread",
    async (_, unit) => {
      const text = `${lineOf("bomb", unit.repeat(BOMB_CHARS / unit.length))}\n${lineOf("after", "x")}`;
      const measurer = new BlockMeasurer(SETTINGS);
      measurer.measure(blockOf(lineOf("warm", "x")), OPTIONS);
      const before = process.cpuUsage();
      expect(measurer.measure(blockOf(text), OPTIONS).count).toBe(2);
      const { user, system } = process.cpuUsage(before);
      expect((user + system) / 1000).toBeLessThan(250);

      // Busy time of the loop is wall time, to which other processes only add: the least of three runs is ours.
      const busyMs: number[] = [];
      for (let round = 0; round < 3; round += 1) {
        const block = blockOf(text);
        const start = performance.eventLoopUtilization();
        const measured = await threads.measure(block, OPTIONS);
        busyMs.push(performance.eventLoopUtilization(start).active);
        expect(measured.count).toBe(2);
        expect(measured.inputTokens[0]).toBeGreaterThan(0);
      }
      expect(Math.min(...busyMs)).toBeLessThan(50);
    },
  );
});

describe("fault 16: special tokens in a prompt", () => {
  it("fault 16: they are counted as text and never an exception", () => {
    const special = ["<|endoftext|>", "<|fim_prefix|>", "<|endofprompt|>", "<|im_start|>system"];
    const lines = special.map((text, index) => lineOf(`${index}`, text, { model: "openai:gpt-4o" }));
    const measured = new BlockMeasurer(SETTINGS).measure(blockOf(lines.join("\n")), OPTIONS);
    expect(measured.rejected).toEqual([]);
    const plain = new BlockMeasurer(SETTINGS).measure(
      blockOf(lineOf("p", "", { model: "openai:gpt-4o" })),
      OPTIONS,
    );
    const overhead = plain.inputTokens[0] ?? 0;
    for (const tokens of measured.inputTokens) expect(tokens).toBeGreaterThan(overhead + 3);
  });
});

describe("fault 18: none or very many lines", () => {
  it("fault 18: an input without lines has no duplicates and makes no shard", async () => {
    const measurer = createInlineMeasurer(SETTINGS);
    expect(await findDuplicate(() => blocksOf("", 10), measurer)).toEqual({ kind: "unique", lines: 0 });
    const packer = new Packer();
    expect(packer.add(await measurer.measure(blockOf(""), OPTIONS))).toEqual([]);
    expect(packer.flush()).toEqual([]);
  });

  it("fault 18: a waiting item costs 32 bytes once its shard is dropped", async () => {
    const measurer = createInlineMeasurer(SETTINGS);
    const packer = new Packer();
    const text = Array.from({ length: 2_000 }, (_, index) => lineOf(`${index}`, "some text")).join("\n");
    const shards = [...packer.add(await measurer.measure(blockOf(text), OPTIONS)), ...packer.flush()];
    for (const shard of shards) shard.dropPrepared();
    expect(shards.reduce((bytes, shard) => bytes + shard.lines.buffer.byteLength, 0)).toBe(2_000 * 32);
    expect(shards.reduce((bytes, shard) => bytes + shard.preparedBytes, 0)).toBe(0);
  });
});

describe("fault 33: a worker thread that dies", () => {
  // asked for in ray-project/ray#59194: only the bad line fails
  it.each(["exit", "out_of_memory", "throw_late"] as const)(
    "fault 33: the line that makes a thread %s is found and rejected, all others are measured",
    async (death) => {
      const poison: Poison = { text: "POISON", death };
      const measurer = createThreadMeasurer({ ...SETTINGS, threads: 1, poison });
      try {
        // Each death by memory takes half a second, so that block is small.
        const count = death === "out_of_memory" ? 3 : 9;
        const lines = Array.from({ length: count }, (_, index) =>
          lineOf(`k${index}`, index === 1 ? "POISON" : "fine"),
        );
        const [hurt, whole] = await Promise.all([
          measurer.measure(blockOf(lines.join("\n"), { firstLine: 101 }), OPTIONS),
          measurer.measure(blockOf(lineOf("other", "fine")), OPTIONS),
        ]);
        expect(whole.count).toBe(1);
        expect([...hurt.lines]).toEqual([101, 103, 104, 105, 106, 107, 108, 109].slice(0, count - 1));
        expect(hurt.rejected).toMatchObject([{ line: 102, key: "k1", code: "tokenizer_failed" }]);
        expect(hurt.bodyEnds.length).toBe(count - 1);
        const next = await measurer.measure(blockOf(lineOf("next", "fine")), OPTIONS);
        expect(next.count).toBe(1);
      } finally {
        await measurer.close();
      }
    },
  );

  it("fault 33: threads that cannot start at all end in an error, not in a wait", async () => {
    const measurer = createThreadMeasurer({ ...SETTINGS, threads: 1, poison: { death: "at_start" } });
    await expect(measurer.measure(blockOf(lineOf("a", "x")), OPTIONS)).rejects.toMatchObject({
      code: "closed",
    });
    await expect(measurer.scanKeys(blockOf(lineOf("a", "x")))).rejects.toMatchObject({ code: "closed" });
    await measurer.close();
  });
});
