/**
 * Makes the bytes of a dropped shard again from the input: reads its lines' spans, measures them, compares. Lines that no shard
 * holds any more are measured again in the same way.
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
import { keyJsonOf, type MeasuredBlock } from "./measured.ts";
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
    const measured = await measureRun(shard, { file, measurer, options }, from, to);
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

/** Where lines are in the input; all of one length, in the order of the lines. */
export interface LinePlaces {
  readonly lines: Uint32Array;
  /** Byte offset of each line in the input. */
  readonly offsets: Float64Array;
  /** Bytes of each line without its line end. */
  readonly lengths: Uint32Array;
}

/** An item of which no shard has the bytes: its line, from 1, the span of that in the input, and its key. */
export interface PlacedItem {
  readonly line: number;
  /** In bytes. */
  readonly offset: number;
  /** In bytes, without its line end. */
  readonly length: number;
  /** A JSON text. */
  readonly keyJson: string;
}

/** Where to read items again, in the order of their lines. */
export function placesOf(items: readonly PlacedItem[]): LinePlaces {
  return {
    lines: Uint32Array.from(items, ({ line }) => line),
    offsets: Float64Array.from(items, ({ offset }) => offset),
    lengths: Uint32Array.from(items, ({ length }) => length),
  };
}

/**
 * The index after the item that the block ends with; `from` is that of its first. Items may be missing in the block: their lines were
 * rejected. Throws `input_changed` where a line has another key.
 */
export function indexAfter(items: readonly PlacedItem[], from: number, measured: MeasuredBlock): number {
  let index = from;
  for (let item = 0; item < measured.count; item += 1) {
    const line = measured.lines[item] as number;
    while ((items[index]?.line ?? line) < line) index += 1;
    if (items[index]?.keyJson !== keyJsonOf(measured, item)) throw inputChanged(placesOf(items));
    index += 1;
  }
  return index;
}

/** What lines are measured again with. */
export interface MeasuringAgain {
  readonly file: Pick<DiskFile, "read">;
  readonly measurer: Measurer;
  /** Those that the lines were measured with. */
  readonly options: MeasureOptions;
}

/** Measures lines of the input again, those that are close together at once. Throws as `reloadShard` does. */
export async function* measureAgain(
  places: LinePlaces,
  measuring: MeasuringAgain,
): AsyncGenerator<MeasuredBlock> {
  for (let from = 0; from < places.lines.length; ) {
    const to = endOfRun(places, from);
    yield await measureRun(places, measuring, from, to);
    from = to;
  }
}

async function measureRun(
  places: LinePlaces,
  { file, measurer, options }: MeasuringAgain,
  from: number,
  to: number,
): Promise<MeasuredBlock> {
  const block = await readRun(places, file, from, to);
  const skip = skipAllBut(block, places.lines.subarray(from, to));
  const measured = await measurer.measure(block, { ...options, skip, wantBodies: true });
  refuseUnmeasured(measured);
  return measured;
}

/** The end of the run of items from `from` that are read together. */
function endOfRun(places: LinePlaces, from: number): number {
  const start = places.offsets[from] as number;
  let to = from + 1;
  while (to < places.lines.length) {
    const offset = places.offsets[to] as number;
    const gapBytes = offset - endOf(places, to - 1);
    if (gapBytes > GAP_BYTES_MAX || endOf(places, to) - start > READ_BYTES_MAX) break;
    to += 1;
  }
  return to;
}

async function readRun(
  places: LinePlaces,
  file: Pick<DiskFile, "read">,
  from: number,
  to: number,
): Promise<Block> {
  const offset = places.offsets[from] as number;
  const firstLine = places.lines[from] as number;
  const bytes = allocate(endOf(places, to - 1) - offset);
  const readBytes = await file.read(bytes, offset);
  if (readBytes < bytes.byteLength) throw inputChanged(places);
  return {
    bytes: new Uint8Array(bytes.buffer),
    offset,
    firstLine,
    lineCount: (places.lines[to - 1] as number) - firstLine + 1,
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

function endOf(places: LinePlaces, item: number): number {
  return (places.offsets[item] as number) + (places.lengths[item] as number);
}
