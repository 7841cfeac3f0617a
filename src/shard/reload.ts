/**
 * Makes the bytes of a dropped shard again from the input: reads its lines' spans, measures them, compares.
 *
 *   dropped --lines unchanged--> prepared
 *           --anything else----> input_changed
 *
 * Lines that are close together are read as one block; what lies between them is read but skipped unparsed.
 */
import type { DiskFile } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import type { Block } from "../jsonl/block.ts";
import { allocate } from "../large_bytes.ts";
import type { MeasureOptions } from "./measure.ts";
import type { MeasuredBlock } from "./measured.ts";
import type { Measurer } from "./measurer.ts";
import { PackedBytes } from "./packed_bytes.ts";
import { inputChanged, type Shard } from "./shard.ts";
import { skipAllBut } from "./skip.ts";

/** Lines with no more than this between them are read together. */
const GAP_BYTES_MAX = 16 * 1024;
/** Bytes of one read, unless a single line is longer. */
const READ_BYTES_MAX = 1024 * 1024;

/**
 * Restores the prepared bytes of a shard; no effect when it has them. The options must be those that the shard was
 * measured with (`skip` is ignored, bodies are always made). Throws `input_changed` when a line is not what it was;
 * then the shard stays dropped. Throws `input_unreadable` when a line
 * could not be measured a second time. One call for a shard at a time.
 */
export async function reloadShard(
  shard: Shard,
  file: Pick<DiskFile, "read">,
  measurer: Measurer,
  options: MeasureOptions,
): Promise<void> {
  if (shard.isPrepared) return;
  const keys = new PackedBytes(1024);
  const bodies = new PackedBytes(16 * 1024);
  for (let from = 0; from < shard.count; ) {
    const to = endOfRun(shard, from);
    const block = await readRun(shard, file, from, to);
    const skip = skipAllBut(block, shard.lines.subarray(from, to));
    const measured = await measurer.measure(block, { ...options, skip, wantBodies: true });
    refuseUnmeasured(measured);
    if (!isSame(shard, from, to, measured)) throw inputChanged(shard);
    keys.addRun(measured.keys, measured.keyEnds, 0, measured.count);
    bodies.addRun(measured.bodies, measured.bodyEnds, 0, measured.count);
    from = to;
  }
  shard.restore({
    keys: keys.toBytes(),
    keyEnds: keys.toEnds(),
    bodies: bodies.toBytes(),
    bodyEnds: bodies.toEnds(),
  });
}

/** The end of the run of items from `from` that are read together. */
function endOfRun(shard: Shard, from: number): number {
  const start = shard.offsets[from] as number;
  let to = from + 1;
  while (to < shard.count) {
    const offset = shard.offsets[to] as number;
    const gapBytes = offset - endOf(shard, to - 1);
    if (gapBytes > GAP_BYTES_MAX || endOf(shard, to) - start > READ_BYTES_MAX) break;
    to += 1;
  }
  return to;
}

async function readRun(shard: Shard, file: Pick<DiskFile, "read">, from: number, to: number): Promise<Block> {
  const offset = shard.offsets[from] as number;
  const firstLine = shard.lines[from] as number;
  const bytes = allocate(endOf(shard, to - 1) - offset);
  const readBytes = await file.read(bytes, offset);
  if (readBytes < bytes.byteLength) throw inputChanged(shard);
  return {
    bytes: new Uint8Array(bytes.buffer),
    offset,
    firstLine,
    lineCount: (shard.lines[to - 1] as number) - firstLine + 1,
  };
}

/** A line that was measured once and now ended its thread says nothing about the input: memory may have run out. */
function refuseUnmeasured(measured: MeasuredBlock): void {
  const failed = measured.rejected.find((rejected) => rejected.code === "tokenizer_failed");
  if (failed === undefined) return;
  throw new PerigeeError(
    "input_unreadable",
    `line ${failed.line} could not be measured again: ${failed.message}`,
  );
}

/** Whether the lines were measured to the same numbers; the checksum of the shard compares keys and bodies. */
function isSame(shard: Shard, from: number, to: number, measured: MeasuredBlock): boolean {
  if (measured.count !== to - from) return false;
  for (let item = 0; item < measured.count; item += 1) {
    const own = from + item;
    const isEqual =
      measured.lines[item] === shard.lines[own] &&
      measured.offsets[item] === shard.offsets[own] &&
      measured.lengths[item] === shard.lengths[own] &&
      measured.inputTokens[item] === shard.inputTokens[own] &&
      measured.maxOutputTokens[item] === shard.maxOutputTokens[own] &&
      measured.groups[measured.groupOf[item] as number]?.model === shard.model;
    if (!isEqual) return false;
  }
  return true;
}

function endOf(shard: Shard, item: number): number {
  return (shard.offsets[item] as number) + (shard.lengths[item] as number);
}
