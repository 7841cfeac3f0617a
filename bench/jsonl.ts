/**
 * The jsonl room, arrow by arrow: reading blocks, scanning keys, parsing lines, writing lines, splitting an array.
 *
 *   npx tsx bench/jsonl.ts [lines]        (default 200,000 lines of 600 bytes)
 */
import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { systemDisk } from "../src/disk.ts";
import { arrayLines } from "../src/jsonl/array.ts";
import type { Block } from "../src/jsonl/block.ts";
import { scanKeys } from "../src/jsonl/keys.ts";
import { parseLine } from "../src/jsonl/layout.ts";
import { eachLine } from "../src/jsonl/lines.ts";
import { readBlocks } from "../src/jsonl/read.ts";
import { completedLine } from "../src/jsonl/write.ts";

const ROUNDS = 5;
const OPTIONS = { providers: new Set(["openai", "echo"]) };

const ANSWER = { finish: "stop", members: undefined, attempts: 1 } as const;
const FACTS = {
  used: {
    inputTokens: 230,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 58,
    reasoningTokens: 0,
    listUsd: 0.0000693,
    billedUsd: 0.0000693,
    ambiguousUsd: 0,
    isEstimated: false,
  },
  priceVersion: "genai-prices 0.1.8",
  last: {
    latencyMs: 412.31,
    model: "gpt-4o-mini-2024-07-18",
    requestId: "req_1f2e3d4c5b6a",
    servedTier: "default",
  },
  requestedModel: "openai:gpt-4o-mini",
};

await main(Number(process.argv[2] ?? 200_000));

async function main(lineCount: number): Promise<void> {
  const layouts = {
    "interface, ASCII": interfaceLine,
    "interface, Bengali": bengaliLine,
    openai: openaiLine,
  };
  const path = join(tmpdir(), `perigee-bench-${randomBytes(4).toString("hex")}.jsonl`);
  try {
    for (const [name, lineOf] of Object.entries(layouts)) {
      const bytes = Buffer.from(
        Array.from({ length: lineCount }, (_, index) => `${lineOf(index)}\n`).join(""),
      );
      await writeFile(path, bytes);
      console.log(`\n${name}: ${lineCount} lines of ${Math.round(bytes.length / lineCount)} bytes`);
      const blocks = await benchReading(path, bytes.length);
      await bench("scanKeys", bytes.length, lineCount, () => {
        for (const block of blocks) scanKeys(block);
      });
      await bench("parseLine", bytes.length, lineCount, () => {
        for (const block of blocks)
          eachLine(block.bytes, (start, end) => void parseLine(block.bytes.subarray(start, end), OPTIONS));
      });
      await bench("(JSON.parse alone)", bytes.length, lineCount, () => {
        for (const block of blocks)
          eachLine(block.bytes, (start, end) => void JSON.parse(utf8(block.bytes.subarray(start, end))));
      });
    }
    const text = "word ".repeat(60);
    await bench("completedLine (300 characters)", lineCount * 350, lineCount, () => {
      for (let index = 0; index < lineCount; index++)
        completedLine('"item-000000"', { ...ANSWER, output: { type: "text", text } }, FACTS);
    });
    await benchArray(Math.min(lineCount, 50_000));
  } finally {
    await rm(path, { force: true });
  }
}

async function benchReading(path: string, bytes: number): Promise<Block[]> {
  const file = await systemDisk.open(path, "read");
  const blocks: Block[] = [];
  let lines = 0;
  await bench("readBlocks", bytes, undefined, async () => {
    for await (const event of readBlocks(file)) if (event.kind === "block") lines += event.block.lineCount;
  });
  for await (const event of readBlocks(file)) if (event.kind === "block") blocks.push(event.block);
  await file.close();
  if (lines === 0) throw new Error("nothing was read");
  return blocks;
}

async function benchArray(lineCount: number): Promise<void> {
  const bytes = Buffer.from(
    `[${Array.from({ length: lineCount }, (_, index) => interfaceLine(index)).join(",\n")}]`,
  );
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield bytes;
  }
  await bench("arrayLines", bytes.length, lineCount, async () => {
    for await (const _ of arrayLines(chunks()));
  });
}

/** Prints the fastest of some rounds: what the work takes when nothing else runs. */
async function bench(
  name: string,
  bytes: number,
  items: number | undefined,
  run: () => unknown,
): Promise<void> {
  let bestMs = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    const startMs = performance.now();
    await run();
    bestMs = Math.min(bestMs, performance.now() - startMs);
  }
  const perItem = items === undefined ? "" : `${((bestMs * 1_000) / items).toFixed(2)} us/line`;
  console.log(`${name.padEnd(32)} ${(bytes / bestMs / 1_000).toFixed(0).padStart(6)} MB/s  ${perItem}`);
}

function interfaceLine(index: number): string {
  return JSON.stringify({
    key: `item-${index}`,
    request: requestOf(`${index} ${"lorem ipsum dolor ".repeat(24)}`),
  });
}

function bengaliLine(index: number): string {
  return JSON.stringify({
    key: `item-${index}`,
    request: requestOf(`${index} ${"জেনেটের হাঁসগুলি ".repeat(9)}`),
  });
}

function requestOf(text: string): object {
  return {
    model: "openai:gpt-4o-mini",
    contents: [{ parts: [{ text }] }],
    generation_config: { temperature: 0, max_output_tokens: 512 },
  };
}

function openaiLine(index: number): string {
  const messages = [
    { role: "system", content: "You are a careful tutor of school mathematics." },
    { role: "user", content: `${index} ${"lorem ipsum dolor ".repeat(19)}` },
  ];
  const body = { model: "gpt-4o-mini", messages, temperature: 0, max_tokens: 512 };
  return JSON.stringify({ custom_id: `item-${index}`, method: "POST", url: "/v1/chat/completions", body });
}

function utf8(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
}
