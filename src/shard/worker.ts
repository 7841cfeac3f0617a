/**
 * What each worker thread of `pool.ts` loads (`threads.ts`). Nothing imports this file.
 *
 * Loading it builds the measurer and its token tables, so that a thread is ready when its first block arrives. Blocks
 * arrive and arrays leave by transfer; no object per line crosses. A thread shares nothing with others.
 */
import { parentPort, workerData } from "node:worker_threads";
import type { Block } from "../jsonl/block.ts";
import { type KeyColumns, type KeyScanOptions, scanKeys as scan } from "../jsonl/keys.ts";
import { noteLargeBytes, noteParsedLines } from "../large_bytes.ts";
import { BlockMeasurer, type MeasureOptions } from "./measure.ts";
import type { MeasuredBlock } from "./measured.ts";
import type { Poison, WorkerSettings } from "./pool.ts";
import { isSkipped } from "./skip.ts";
import type { ThreadAnswer, ThreadCall } from "./threads.ts";

const settings = workerData as WorkerSettings; // pool.ts starts this file with only these
if (settings.poison?.death === "at_start") throw new RangeError("thrown at start");
const measurer = new BlockMeasurer(settings);

/** An answer, and the buffers that leave with it: all different. */
interface Moved {
  readonly answer: unknown;
  readonly buffers: readonly ArrayBuffer[];
}

interface Task {
  readonly block: Block;
  readonly options: never; // those of the function that is called
}

const FUNCTIONS: Readonly<Record<string, (task: Task) => Moved | Promise<never>>> = {
  /** Nothing to do: a thread that answers has loaded its tables. */
  warm: () => ({ answer: null, buffers: [] }),
  measure,
  scanKeys,
};

parentPort?.on("message", async ({ id, name, task }: ThreadCall) => {
  try {
    const call = FUNCTIONS[name];
    if (call === undefined) throw new RangeError(`no function ${name}`);
    const { answer, buffers } = await call(task as Task); // by pool.ts
    parentPort?.postMessage({ id, ok: true, answer } satisfies ThreadAnswer, buffers);
  } catch (error) {
    parentPort?.postMessage({ id, ok: false, error } satisfies ThreadAnswer);
  }
});

function measure({
  block,
  options,
}: {
  readonly block: Block;
  readonly options: MeasureOptions;
}): Moved | Promise<never> {
  if (settings.poison !== undefined && hasPoison(settings.poison, { block, options }))
    return dieOf(settings.poison);
  const measured: MeasuredBlock = measurer.measure(block, options);
  noteLargeBytes(block.bytes.byteLength);
  noteParsedLines(block.lineCount);
  const { lines, offsets, lengths, inputTokens, maxOutputTokens, most } = measured;
  const { groupOf, warnings, keys, keyEnds, bodies, bodyEnds } = measured;
  const columns = [lines, offsets, lengths, inputTokens, maxOutputTokens, most, groupOf, warnings];
  const { requests } = measured;
  const asked = requests === undefined ? [] : [requests.keys, requests.areCertain];
  const moved = [...columns, keys, keyEnds, bodies, bodyEnds, ...asked];
  return { answer: measured, buffers: moved.map(({ buffer }) => buffer) };
}

function scanKeys({
  block,
  options,
}: {
  readonly block: Block;
  readonly options: KeyScanOptions | undefined;
}): Moved {
  const columns: KeyColumns = scan(block, options);
  noteLargeBytes(block.bytes.byteLength);
  noteParsedLines(block.lineCount);
  const { lines, hashes, keys, keyEnds } = columns;
  return { answer: columns, buffers: [lines, hashes, keys, keyEnds].map(({ buffer }) => buffer) };
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
