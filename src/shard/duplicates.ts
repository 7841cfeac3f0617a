/**
 * Finds whether two lines of an input carry the same key, and which, before anything is sent.
 *
 * First pass: threads hash each line's key to 64 bits, this thread notes the hashes in a table. A hash that is there
 * already is a suspect. No suspect: all keys differ. Otherwise a second pass parses the lines of suspects, hardly any
 * other, and compares their true keys, so that the answer is exact and names the duplicate with the smallest second
 * line. The first pass stops after `repeatsMax`, so that a file of one repeated key is refused at once; when all
 * suspects were false (broken lines with the key of another), the next round begins to suspect after them and allows
 * sixteen times as many.
 *
 * Limits: one table of `tableBytesMax` holds 6.2 million keys at the default of 64 MiB; more keys are split by hash,
 * with one pass for each part (ten million lines: two passes).
 * Hot path: at least 400 MB/s on lines of 600 bytes, from file to answer (bench/parts/pack.ts).
 */
import type { ReaderEvent } from "../jsonl/block.ts";
import { type KeyColumns, type KeyScanOptions, keyFilter } from "../jsonl/keys.ts";
import type { KeyScanner } from "./measurer.ts";
import { SeenKeys } from "./streaming_keys.ts";

export interface DuplicateBounds {
  /** Bytes of the table of hashes; a power of two. */
  readonly tableBytesMax: number;
  /** Lines with a repeated hash after which the true keys are compared, in the first round. */
  readonly repeatsMax: number;
  /** Different hashes that are suspected in one round. */
  readonly suspectsMax: number;
  /** Size of the input where known; spares the table from growing. */
  readonly inputBytes?: number;
}

export const DUPLICATE_BOUNDS: DuplicateBounds = {
  tableBytesMax: 64 * 1024 * 1024,
  repeatsMax: 1_024,
  suspectsMax: 262_144,
};

export type DuplicateAnswer =
  | {
      readonly kind: "unique";
      /** Lines of the input, blank and refused ones included. */
      readonly lines: number;
    }
  | {
      readonly kind: "duplicate";
      readonly key: string;
      /** The first line with the key. */
      readonly firstLine: number;
      /** The smallest line number of all lines whose key is on an earlier line too. */
      readonly secondLine: number;
    };

/** Returns the input from its start, each time it is called. */
export type BlockSource = () => AsyncIterable<ReaderEvent>;

/** Lines whose key cannot be read are skipped: each fails by itself when it is measured. */
export async function findDuplicate(
  blocks: BlockSource,
  measurer: KeyScanner,
  bounds: DuplicateBounds = DUPLICATE_BOUNDS,
): Promise<DuplicateAnswer> {
  let parts = 1;
  let verifiedLine = 0;
  let repeatsMax = bounds.repeatsMax;
  for (;;) {
    const round = new SuspectRound({ ...bounds, repeatsMax }, parts, verifiedLine);
    const lines = await runRound(round, blocks, measurer);
    if (round.table.isFull) {
      parts = Math.max(parts * 2, round.table.partsNeeded);
      continue;
    }
    if (round.suspects.size === 0) return { kind: "unique", lines };
    const found = await compareKeys(blocks, measurer, round);
    if (found !== undefined) return found;
    if (round.horizonLine === Number.POSITIVE_INFINITY) return { kind: "unique", lines };
    verifiedLine = round.horizonLine;
    repeatsMax *= 16;
  }
}

/** Runs one pass for each part, until the table is full; returns the lines of the input (of its last whole pass). */
async function runRound(round: SuspectRound, blocks: BlockSource, measurer: KeyScanner): Promise<number> {
  let lines = 0;
  for (let part = 0; part < round.parts; part += 1) {
    round.beginPart(part);
    for await (const scanned of scanInOrder(blocks, measurer, {})) {
      lines = Math.max(lines, scanned.lastLine);
      if (!round.take(scanned)) break;
    }
    if (round.table.isFull) break;
  }
  return lines;
}

/** The table of the keys of one part after another: none -> made by the first block -> full, if it cannot hold a part. */
class KeyTable {
  isFull = false;
  /** Parts after which it will hold each part, as far as the input's size shows. */
  partsNeeded = 1;
  readonly keysMax: number;
  readonly #bounds: DuplicateBounds;
  #seen: SeenKeys | undefined;

  constructor(bounds: DuplicateBounds) {
    this.#bounds = bounds;
    this.keysMax = Math.floor((bounds.tableBytesMax / 8) * 0.75);
  }

  /** The next part begins. */
  clear(): void {
    this.#seen?.clear(); // a second table would be in memory beside the first until that is collected
  }

  /** The keys so far, in a table sized by the first block; undefined when it could not hold one of `parts`. */
  seen(scanned: ScannedBlock, parts: number): SeenKeys | undefined {
    if (this.#seen !== undefined) return this.#seen;
    if (scanned.columns.count === 0) return new SeenKeys();
    const bytesPerKey = scanned.blockBytes / scanned.columns.count;
    const keys = Math.ceil(((this.#bounds.inputBytes ?? 0) / bytesPerKey) * 1.05);
    this.partsNeeded = Math.ceil(keys / this.keysMax);
    if (this.partsNeeded > parts) {
      this.isFull = true;
      return undefined;
    }
    this.#seen = new SeenKeys(Math.min(this.keysMax, keys / parts));
    return this.#seen;
  }
}

class SuspectRound {
  readonly parts: number;
  /** Hashes that occurred twice, 53 bits of each. */
  readonly suspects = new Set<number>();
  /** Lines after this one no longer matter: the bound of repeats or suspects was reached there. */
  horizonLine = Number.POSITIVE_INFINITY;
  readonly table: KeyTable;
  readonly #bounds: DuplicateBounds;
  /** Lines up to this one are known to differ. */
  readonly #verifiedLine: number;
  #part = 0;
  #repeats = 0;

  constructor(bounds: DuplicateBounds, parts: number, verifiedLine: number) {
    this.#bounds = bounds;
    this.parts = parts;
    this.#verifiedLine = verifiedLine;
    this.table = new KeyTable(bounds);
  }

  beginPart(part: number): void {
    this.#part = part;
    this.#repeats = 0;
    this.table.clear();
  }

  /** Takes the hashes of a block; false when this pass need not go on. */
  take(scanned: ScannedBlock): boolean {
    const { lines, hashes, count } = scanned.columns;
    const { table } = this;
    const seen = table.seen(scanned, this.parts);
    if (seen === undefined) return false;
    for (let index = 0; index < count; index += 1) {
      const high = hashes[index * 2] as number;
      const low = hashes[index * 2 + 1] as number;
      if (this.parts > 1 && low % this.parts !== this.#part) continue;
      const line = lines[index] as number;
      if (line > this.horizonLine) return false;
      if (seen.size >= table.keysMax) {
        table.isFull = true;
        return false;
      }
      if (seen.add(high, low) || line <= this.#verifiedLine) continue;
      this.suspects.add(suspectOf(high, low));
      this.#repeats += 1;
      if (this.#repeats >= this.#bounds.repeatsMax || this.suspects.size >= this.#bounds.suspectsMax) {
        this.horizonLine = line;
        return false;
      }
    }
    return true;
  }
}

/** The first line in order whose true key is on an earlier line too; undefined when all suspects were false. */
async function compareKeys(
  blocks: BlockSource,
  measurer: KeyScanner,
  round: SuspectRound,
): Promise<DuplicateAnswer | undefined> {
  const firstLines = new Map<string, number>();
  const decoder = new TextDecoder();
  const filter = keyFilter(highsOf(round.suspects));
  for await (const { columns, lastLine } of scanInOrder(blocks, measurer, { wantKeys: true, filter })) {
    for (let index = 0; index < columns.count; index += 1) {
      const line = columns.lines[index] as number;
      if (line > round.horizonLine) return undefined;
      const suspect = suspectOf(columns.hashes[index * 2] as number, columns.hashes[index * 2 + 1] as number);
      if (!round.suspects.has(suspect)) continue;
      const start = index === 0 ? 0 : (columns.keyEnds[index - 1] as number);
      const key = decoder.decode(columns.keys.subarray(start, columns.keyEnds[index]));
      const firstLine = firstLines.get(key);
      if (firstLine !== undefined) return { kind: "duplicate", key, firstLine, secondLine: line };
      firstLines.set(key, line);
    }
    if (lastLine >= round.horizonLine) return undefined;
  }
  return undefined;
}

interface ScannedBlock {
  readonly columns: KeyColumns;
  readonly lastLine: number;
  readonly blockBytes: number;
}

/** Key columns of all blocks in the order of the input, with as many scans under way as the measurer can use. */
async function* scanInOrder(
  blocks: BlockSource,
  measurer: KeyScanner,
  options: KeyScanOptions,
): AsyncGenerator<ScannedBlock> {
  const underWay: Promise<ScannedBlock>[] = [];
  try {
    for await (const event of blocks()) {
      if (event.kind === "refused") {
        underWay.push(Promise.resolve({ columns: NO_KEYS, lastLine: event.refused.line, blockBytes: 0 }));
        continue;
      }
      const { block } = event;
      const lastLine = block.firstLine + block.lineCount - 1;
      const blockBytes = block.bytes.byteLength;
      const scan = measurer.scanKeys(block, options);
      const scanned = scan.then((columns) => ({ columns, lastLine, blockBytes }));
      // It is awaited in its turn; a failure before that must not count as unhandled.
      scanned.catch(() => undefined);
      underWay.push(scanned);
      if (underWay.length >= measurer.concurrency) yield await (underWay.shift() as Promise<ScannedBlock>);
    }
    while (underWay.length > 0) yield await (underWay.shift() as Promise<ScannedBlock>);
  } finally {
    await Promise.allSettled(underWay);
  }
}

/** What a refused line has. */
const NO_KEYS: KeyColumns = {
  count: 0,
  lines: new Uint32Array(0),
  hashes: new Uint32Array(0),
  keys: new Uint8Array(0),
  keyEnds: new Uint32Array(0),
};

/** The high halves of suspects. */
function* highsOf(suspects: Iterable<number>): Generator<number> {
  for (const suspect of suspects) yield Math.floor(suspect / 2 ** 21);
}

/** 53 of the 64 bits; true keys are compared, so a few more suspects do no harm. */
function suspectOf(high: number, low: number): number {
  return high * 2 ** 21 + (low >>> 11);
}
