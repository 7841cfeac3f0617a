/**
 * Reading: blocks of whole lines from the page cache, the keys of a block, a line as an item.
 *
 * Bounds: blocks 1.5 GB/s, keys 1 GB/s, a line 4 us.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemDisk } from "../../src/disk.ts";
import type { Block } from "../../src/jsonl/block.ts";
import { scanKeys } from "../../src/jsonl/keys.ts";
import { parseLine } from "../../src/jsonl/layout.ts";
import { eachLine } from "../../src/jsonl/lines.ts";
import { readBlocks } from "../../src/jsonl/read.ts";
import type { Part, PartBench } from "../shared/harness.ts";
import { type Layout, linesOf } from "../shared/lines.ts";

const LINES = 20_000;
const LAYOUTS: readonly Layout[] = ["interface", "openai", "bengali"];
const OPTIONS = { providers: new Set(["openai", "echo"]) };

export async function open(): Promise<PartBench> {
  const folder = mkdtempSync(join(tmpdir(), "perigee-bench-"));
  const path = join(folder, "in.jsonl");
  const parts: Part[] = [];
  for (const layout of LAYOUTS) {
    writeFileSync(path, linesOf(layout, LINES));
    const blocks = await blocksOf(path);
    if (layout === "interface") parts.push(...wholeFile(path, blocks));
    parts.push(lines(layout, blocks));
  }
  writeFileSync(path, linesOf("interface", LINES));
  return { parts, close: () => rmSync(folder, { recursive: true }) };
}

function wholeFile(path: string, blocks: readonly Block[]): readonly Part[] {
  const readWhole = { name: "readFileSync", run: () => readFileSync(path) };
  return [
    { name: "read: blocks of lines", of: "line", calls: LINES, run: () => blocksOf(path), beside: readWhole },
    {
      name: "read: keys of a block",
      of: "line",
      calls: LINES,
      run: () => blocks.map((block) => scanKeys(block)),
      beside: readWhole,
    },
  ];
}

function lines(layout: Layout, blocks: readonly Block[]): Part {
  const each = (read: (line: Uint8Array) => unknown) => () => {
    for (const { bytes } of blocks) eachLine(bytes, (start, end) => void read(bytes.subarray(start, end)));
  };
  return {
    name: `read: a line, ${layout}`,
    of: "line",
    calls: LINES,
    run: each((line) => parseLine(line, OPTIONS)),
    beside: {
      name: "JSON.parse alone",
      run: each((line) => JSON.parse(Buffer.from(line.buffer, line.byteOffset, line.byteLength).toString())),
    },
  };
}

async function blocksOf(path: string): Promise<readonly Block[]> {
  const file = await systemDisk.open(path, "read");
  const blocks: Block[] = [];
  for await (const event of readBlocks(file)) if (event.kind === "block") blocks.push(event.block);
  await file.close();
  return blocks;
}
