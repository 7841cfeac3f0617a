/**
 * Thread entry: what piscina loads in each worker thread of `pool.ts`. Nothing imports this file.
 *
 * Loading it builds the measurer and its token tables, so that a thread is ready when its first block comes. Blocks
 * come in and arrays go out by transfer; no object per line crosses. A thread shares nothing with others.
 */
import { workerData } from "node:worker_threads";
import type { Block } from "../jsonl/block.ts";
import { type KeyColumns, type KeyScanOptions, scanKeys as scan } from "../jsonl/keys.ts";
import { noteLargeBytes } from "../large_bytes.ts";
import { BlockMeasurer, type MeasureOptions } from "./measure.ts";
import type { MeasuredBlock } from "./measured.ts";
import { type Poison, transferring, type WorkerSettings } from "./pool.ts";
import { isSkipped } from "./skip.ts";

const settings = workerData as WorkerSettings; // pool.ts starts this file with these alone
if (settings.poison?.death === "at_start") throw new RangeError("thrown at start");
const measurer = new BlockMeasurer(settings);

/** Nothing to do: a thread that answers has loaded its tables. */
export function warm(): null {
  return null;
}

export function measure(task: {
  readonly block: Block;
  readonly options: MeasureOptions;
}): MeasuredBlock | Promise<never> {
  if (settings.poison !== undefined && hasPoison(settings.poison, task)) return dieOf(settings.poison);
  const measured = measurer.measure(task.block, task.options);
  noteLargeBytes(task.block.bytes.byteLength);
  return transferring(measured, [
    measured.lines.buffer,
    measured.offsets.buffer,
    measured.lengths.buffer,
    measured.inputTokens.buffer,
    measured.maxOutputTokens.buffer,
    measured.most.buffer,
    measured.groupOf.buffer,
    measured.warnings.buffer,
    measured.keys.buffer,
    measured.keyEnds.buffer,
    measured.bodies.buffer,
    measured.bodyEnds.buffer,
  ]);
}

export function scanKeys(task: {
  readonly block: Block;
  readonly options: KeyScanOptions | undefined;
}): KeyColumns {
  const columns = scan(task.block, task.options);
  noteLargeBytes(task.block.bytes.byteLength);
  return transferring(columns, [
    columns.lines.buffer,
    columns.hashes.buffer,
    columns.keys.buffer,
    columns.keyEnds.buffer,
  ]);
}

/** Whether a line that is not skipped holds the poison of a test. */
function hasPoison(
  poison: Poison,
  task: { readonly block: Block; readonly options: MeasureOptions },
): boolean {
  if (poison.death === "at_start") return false;
  const lines = Buffer.from(task.block.bytes.buffer).toString("latin1").split("\n");
  return lines.some((line, index) => !isSkipped(task.options.skip, index) && line.includes(poison.text));
}

/** Ends this thread the way a test asked for; never answers. */
function dieOf(poison: Poison): Promise<never> {
  if (poison.death === "exit") process.exit(7);
  if (poison.death === "throw_late") {
    queueMicrotask(() => {
      throw new RangeError("thrown late");
    });
    return new Promise(() => undefined);
  }
  const kept: number[][] = [];
  for (;;) kept.push(new Array<number>(1_000_000).fill(0.5));
}
