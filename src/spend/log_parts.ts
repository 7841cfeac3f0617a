/**
 * Counts a log file in parts, two at a time: one in this thread, one in another.
 *
 *   file -> parts of 64 MiB of whole lines -> each counted -> put together in the order of the file
 *
 * A log that is smaller than a part, a stream, and a machine with one processor are counted in this thread only, and so is a
 * part whose thread died, or for which the file of threads is missing (`built_files.ts`).
 *
 * Limits: one other thread, whatever the processors: a thread takes 60 MiB, and the whole stays below 256 MiB.
 */
import { availableParallelism } from "node:os";
import { builtFile } from "../built_files.ts";
import type { DiskFile } from "../disk.ts";
import { type ErrorCode, PerigeeError } from "../errors.ts";
import type { PriceOverrides } from "../price/overrides.ts";
import { PriceBook } from "../price/price_book.ts";
import { Threads } from "../shard/threads.ts";
import { addCounted, type CountedLines, countLines } from "./count_lines.ts";
import { addLedger } from "./ledger.ts";
import type { LedgerTerms } from "./model_tallies.ts";

/** As `LedgerTerms`, but plain data. */
export interface CountTerms {
  readonly prices: PriceOverrides;
  readonly waitsMs: readonly number[];
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/** A part of a file, for a thread. */
export interface PartTask {
  readonly path: string;
  readonly from: number;
  readonly to: number;
}

/** What a thread answers; errors lose their code on the way otherwise. */
export type PartAnswer =
  | { readonly ok: true; readonly counted: CountedLines }
  | { readonly ok: false; readonly code: ErrorCode; readonly message: string };

export interface PartOptions {
  /** Bytes of a part, at least 1. Default 64 MiB. */
  readonly partBytes?: number | undefined;
  /** Other threads, 0 or 1. Default: 1 where there are two processors or more. */
  readonly threads?: number | undefined;
}

const PART_BYTES = 64 * 1024 * 1024;
const SEEK_BYTES = 64 * 1024;
const LF = 0x0a;
const THREAD_HEAP_MB = 96;
const THREAD_YOUNG_HEAP_MB = 16;

/** Terms with a price book. Throws `invalid_config` when an override is not a price. */
export function ledgerTerms({ prices, waitsMs, nowMs }: CountTerms): LedgerTerms {
  return { prices: new PriceBook(prices), waitsMs, nowMs };
}

/** Counts a file that can be read at any offset; it stays open. Throws as `countLines` does. */
export async function countLog(
  path: string,
  file: Pick<DiskFile, "read">,
  sizeBytes: number,
  terms: CountTerms,
  options: PartOptions = {},
): Promise<CountedLines> {
  const parts = await partsOf(file, sizeBytes, options.partBytes ?? PART_BYTES);
  const here = ledgerTerms(terms);
  const countHere = ({ from, to }: PartTask): Promise<CountedLines> =>
    countLines(file, here, { fromOffset: from, toOffset: to });
  const counted: CountedLines[] = [];
  const queue = parts.entries();
  const take = async (count: (part: PartTask) => Promise<CountedLines>): Promise<void> => {
    for (const [index, [from, to]] of queue) counted[index] = await count({ path, from, to });
  };
  const threads =
    parts.length > 1 ? threadsOf(terms, options.threads ?? availableParallelism() - 1) : undefined;
  try {
    if (threads === undefined) await take(countHere);
    else await Promise.all([take(countHere), take((part) => countThere(threads, part, countHere))]);
  } finally {
    await threads?.destroy();
  }
  return counted.reduce((first, second) => addCounted(first, second, addLedger(first.ledger, second.ledger)));
}

/** The whole of a stream, in this thread. */
export function countStream(file: Pick<DiskFile, "read">, terms: CountTerms): Promise<CountedLines> {
  return countLines(file, ledgerTerms(terms), { chunkBytes: STREAM_CHUNK_BYTES });
}

/** Above the longest line: a longer one is refused without a second look, which a stream does not allow. */
const STREAM_CHUNK_BYTES = 12 * 1024 * 1024;

/** Undefined without the file of threads, or where none is wanted. */
function threadsOf(terms: CountTerms, wanted: number): Threads | undefined {
  if (wanted < 1) return undefined;
  let file: URL;
  try {
    file = builtFile("audit_thread.mjs");
  } catch {
    return undefined; // a bundle without it counts more slowly
  }
  return new Threads({
    file,
    count: 1,
    workerData: terms,
    resourceLimits: {
      maxOldGenerationSizeMb: THREAD_HEAP_MB,
      maxYoungGenerationSizeMb: THREAD_YOUNG_HEAP_MB,
    },
    onIdleDeath: () => undefined, // the next call starts another
  });
}

async function countThere(
  threads: Threads,
  part: PartTask,
  countHere: (part: PartTask) => Promise<CountedLines>,
): Promise<CountedLines> {
  let answer: PartAnswer;
  try {
    answer = await threads.run<PartAnswer>("count", part);
  } catch {
    return countHere(part);
  }
  if (answer.ok) return answer.counted;
  throw new PerigeeError(answer.code, answer.message);
}

/** Offsets of parts, each of whole lines; one part for an empty file. */
async function partsOf(
  file: Pick<DiskFile, "read">,
  sizeBytes: number,
  partBytes: number,
): Promise<[from: number, to: number][]> {
  const parts: [number, number][] = [];
  let from = 0;
  do {
    const to = from + partBytes >= sizeBytes ? sizeBytes : await lineEnd(file, from + partBytes, sizeBytes);
    parts.push([from, to]);
    from = to;
  } while (from < sizeBytes);
  return parts;
}

/** The offset after the first line end from `offset` on; `sizeBytes` without one. */
async function lineEnd(file: Pick<DiskFile, "read">, offset: number, sizeBytes: number): Promise<number> {
  const bytes = Buffer.allocUnsafe(SEEK_BYTES);
  for (let at = offset; at < sizeBytes; ) {
    const got = await file.read(bytes, at);
    if (got === 0) break;
    const newline = bytes.subarray(0, got).indexOf(LF);
    if (newline >= 0) return Math.min(sizeBytes, at + newline + 1);
    at += got;
  }
  return sizeBytes;
}
