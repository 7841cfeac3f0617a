/**
 * The shard room: measuring lines, packing items, and the pass that looks for duplicate keys.
 *
 *   npm run build && npx tsx bench/shard.ts [lines]        (default 100,000 lines of 600 bytes)
 *
 * CPU is the time of all threads of this process. "Main thread" is the time its event loop was busy.
 */
import { randomBytes } from "node:crypto";
import { open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { systemDisk } from "../src/disk.ts";
import { type ReadOptions, readBlocks } from "../src/jsonl/read.ts";
import { DUPLICATE_BOUNDS, findDuplicate } from "../src/shard/duplicates.ts";
import type { MeasureSettings } from "../src/shard/measure.ts";
import type { MeasuredBlock } from "../src/shard/measured.ts";
import { Packer } from "../src/shard/pack.ts";
import { createInlineMeasurer, createThreadMeasurer, type Measurer } from "../src/shard/pool.ts";
import { SeenKeys } from "../src/shard/streaming_keys.ts";

const SETTINGS: MeasureSettings = {
  providers: [
    { name: "openai", protocol: "openai", baseUrl: "https://api.openai.com/v1" },
    { name: "echo", protocol: "echo", baseUrl: "" },
  ],
  lineBytesMax: 10 * 1024 * 1024,
  depthMax: 64,
  keyBytesMax: 512,
};
const WORDS =
  "the quick brown fox asks whether seventeen invoices were paid before Thursday, and by whom".split(" ");

await main(Number(process.argv[2] ?? 100_000));

async function main(lineCount: number): Promise<void> {
  const path = join(tmpdir(), `perigee-bench-${randomBytes(4).toString("hex")}.jsonl`);
  const inline = createInlineMeasurer(SETTINGS);
  const threads = createThreadMeasurer(SETTINGS);
  try {
    const bytes = await writeLines(path, lineCount);
    console.log(
      `${lineCount} lines of ${Math.round(bytes / lineCount)} bytes, ${threads.concurrency / 2} thread(s)`,
    );
    for (let round = 0; round < 3; round += 1) {
      await timed("measure, in this thread", lineCount, bytes, () => measureAll(path, inline));
      await timed("measure and pack, threads", lineCount, bytes, () =>
        measureAll(path, threads, new Packer()),
      );
      await timed("scan keys, in this thread", lineCount, bytes, () => duplicates(path, inline, bytes));
      await timed("find duplicates, threads", lineCount, bytes, () => duplicates(path, threads, bytes));
    }
    await benchPack(path, inline, lineCount);
    benchSeenKeys();
  } finally {
    await threads.close();
    await rm(path, { force: true });
  }
}

async function measureAll(path: string, measurer: Measurer, packer?: Packer): Promise<void> {
  const underWay: Promise<MeasuredBlock>[] = [];
  const take = async (): Promise<void> => {
    const measured = await underWay.shift();
    if (measured !== undefined) packer?.add(measured);
  };
  for await (const event of blocks(path)) {
    if (event.kind !== "block") continue;
    underWay.push(measurer.measure(event.block, { wantBodies: true }));
    if (underWay.length >= measurer.concurrency) await take();
  }
  while (underWay.length > 0) await take();
  packer?.flush();
}

async function duplicates(path: string, measurer: Measurer, inputBytes: number): Promise<void> {
  const answer = await findDuplicate(() => blocks(path), measurer, { ...DUPLICATE_BOUNDS, inputBytes });
  if (answer.kind !== "unique") throw new Error("keys are unique here");
}

async function benchPack(path: string, measurer: Measurer, lineCount: number): Promise<void> {
  const measured: MeasuredBlock[] = [];
  for await (const event of blocks(path)) {
    if (event.kind === "block") measured.push(await measurer.measure(event.block, { wantBodies: true }));
  }
  let shards = 0;
  await timed("pack", lineCount, 0, async () => {
    const packer = new Packer();
    for (const block of measured) shards += packer.add(block).length;
    shards += packer.flush().length;
  });
  console.log(`  ${shards} shards`);
}

function benchSeenKeys(): void {
  const keys = 1_000_000;
  const seen = new SeenKeys(keys);
  const start = performance.now();
  for (let key = 0; key < keys; key += 1) {
    seen.add(Math.imul(key, 0x9e3779b1) >>> 0, Math.imul(key + 7, 0x85ebca6b) >>> 0);
  }
  console.log(
    `SeenKeys.add: ${Math.round(((performance.now() - start) / keys) * 1e6)} ns a key (${keys} keys)`,
  );
}

async function* blocks(path: string, options?: ReadOptions): ReturnType<typeof readBlocks> {
  const file = await systemDisk.open(path, "read");
  try {
    yield* readBlocks(file, options);
  } finally {
    await file.close();
  }
}

async function timed(
  name: string,
  lineCount: number,
  bytes: number,
  run: () => Promise<void>,
): Promise<void> {
  const loop = performance.eventLoopUtilization();
  const cpu = process.cpuUsage();
  const start = performance.now();
  await run();
  const ms = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  const busyMs = performance.eventLoopUtilization(loop).active;
  const perLine = (micros: number): string => (micros / lineCount).toFixed(2);
  console.log(
    `${name.padEnd(28)} ${Math.round(ms)} ms, ${Math.round(lineCount / (ms / 1000))} lines/s, ` +
      `${Math.round(bytes / 1e3 / ms)} MB/s, CPU ${perLine(user + system)} us a line, main thread ${perLine(busyMs * 1000)}`,
  );
}

/** Lines of 600 bytes with prompts of words; returns the bytes written. */
async function writeLines(path: string, lineCount: number): Promise<number> {
  const file = await open(path, "w");
  let written = 0;
  let batch: string[] = [];
  for (let line = 0; line < lineCount; line += 1) {
    batch.push(lineOf(line));
    if (batch.length === 4_096 || line === lineCount - 1) {
      const bytes = Buffer.from(`${batch.join("\n")}\n`);
      await file.write(bytes);
      written += bytes.length;
      batch = [];
    }
  }
  await file.close();
  return written;
}

function lineOf(line: number): string {
  const start = `{"key":"item-${line}","request":{"model":"openai:gpt-4o-mini","contents":[{"parts":[{"text":"`;
  const end = `"}]}],"generation_config":{"max_output_tokens":64,"temperature":0}}}`;
  let text = "";
  for (let word = line; text.length < 599 - start.length - end.length; word += 1 + (line % 3)) {
    text += `${WORDS[word % WORDS.length]} `;
  }
  return start + text.slice(0, 599 - start.length - end.length) + end;
}
