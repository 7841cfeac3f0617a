/**
 * The lines of a batch on the disk, and what is needed of each item when its result arrives.
 *
 *   open --lines are added--> open --sealed: synced, hashed--> whole --deleted once its results are stored
 *
 * Two files: `<tag>.jsonl` holds the requests as they are uploaded; `<tag>.items` one row of numbers for each item and then its
 * texts (key, metadata, warnings, schema, number of answers). A file that was not sealed belongs to no record, and is removed at the next start: its items
 * are still fresh.
 *
 * Row, little-endian, 52 bytes: offset f64, line end f64, text end f64, line u32, length u32, input tokens u32, output limit u32,
 * most input u32, most output u32, requeues u32.
 * Limits: 1 MiB of each file is held before it is written; an item's id is its place, from 0.
 * Hot: an item takes 3 us (bench/lanes.ts), a sixth of it for its checksum.
 */
import { createHash, type Hash } from "node:crypto";
import type { Disk } from "../../disk.ts";
import type { ItemCall } from "../items/item_call.ts";
import { FileAppender } from "./file_appender.ts";

const ROW_BYTES = 52;
/** No text of an item holds it. */
const SEPARATOR = "\u0000";
/** Nor these. */
const BEFORE_SCHEMA = "\u0001";
const BEFORE_ANSWERS = "\u0002";

/** An item of a batch, as its row has it. */
export interface BatchItem {
  readonly line: number;
  /** Of its line in the input. */
  readonly offset: number;
  readonly length: number;
  readonly inputTokens: number;
  readonly maxOutputTokens: number;
  readonly most: { readonly inputTokens: number; readonly maxOutputTokens: number };
  /** How often it was in a batch before that did not finish it. */
  readonly requeues: number;
  readonly keyJson: string;
  readonly metadata: string;
  readonly warnings: string;
  /** What it says of its answer's schema, in JSON; empty text where it says nothing. */
  readonly schema: string;
  /** Answers that it asks for, one for each input; undefined where that is not known, and of batches of earlier versions. */
  readonly answers: number | undefined;
}

/** What a sealed batch holds. */
export interface SealedLines {
  readonly sha256: string;
  readonly items: number;
  readonly bytes: number;
}

/** Adds lines, until it is sealed or dropped. */
export class BatchLinesWriter {
  readonly #requests: FileAppender;
  readonly #texts: FileAppender;
  readonly #hash: Hash = createHash("sha256");
  readonly #disk: Disk;
  readonly #paths: readonly [requests: string, items: string];
  #rows = new DataView(new ArrayBuffer(ROW_BYTES * 1_024));
  items = 0;
  #textEnd = 0;

  constructor(disk: Disk, paths: readonly [requests: string, items: string]) {
    this.#disk = disk;
    this.#paths = paths;
    this.#requests = new FileAppender(disk, paths[0], (bytes) => this.#hash.update(bytes));
    this.#texts = new FileAppender(disk, paths[1]);
  }

  get bytes(): number {
    return this.#requests.bytes;
  }

  /** Bytes that wait to be written. */
  get unwrittenBytes(): number {
    return this.#requests.unwrittenBytes + this.#texts.unwrittenBytes;
  }

  /** Adds an item with its request, without a newline; both are copied. `answers`: see `BatchItem`. */
  add(call: ItemCall, requeues: number, request: Uint8Array, answers?: number): void {
    const { shard, index, most, keyJson, metadata, warnings, schema } = call;
    this.#requests.addLine(request);
    const fit = schema === "" ? "" : `${BEFORE_SCHEMA}${schema}`;
    const asked = answers === undefined ? "" : `${BEFORE_ANSWERS}${answers}`;
    this.#textEnd += this.#texts.addText(
      `${keyJson}${SEPARATOR}${metadata}${SEPARATOR}${warnings}${fit}${asked}`,
    );
    const at = this.items * ROW_BYTES;
    if (at + ROW_BYTES > this.#rows.byteLength) this.#rows = twice(this.#rows);
    const rows = this.#rows;
    rows.setFloat64(at, shard.offsets[index] as number, true);
    rows.setFloat64(at + 8, this.#requests.bytes, true);
    rows.setFloat64(at + 16, this.#textEnd, true);
    rows.setUint32(at + 24, call.line, true);
    rows.setUint32(at + 28, shard.lengths[index] as number, true);
    rows.setUint32(at + 32, call.inputTokens, true);
    rows.setUint32(at + 36, call.maxOutputTokens, true);
    rows.setUint32(at + 40, most.inputTokens, true);
    rows.setUint32(at + 44, most.maxOutputTokens, true);
    rows.setUint32(at + 48, requeues, true);
    this.items += 1;
  }

  /** Resolves when what was added is written; rejects as the disk does, and may be called again then. */
  async written(): Promise<void> {
    await this.#requests.written();
    await this.#texts.written();
  }

  /** Makes all of it durable. May be called again after a rejection that was for want of space. */
  async seal(): Promise<SealedLines> {
    await this.written();
    await this.#texts.writeAt(new Uint8Array(this.#rows.buffer, 0, this.items * ROW_BYTES));
    await this.#requests.close();
    await this.#texts.close();
    return { sha256: this.#hash.copy().digest("hex"), items: this.items, bytes: this.bytes };
  }

  /** Nothing of it is needed. */
  async drop(): Promise<void> {
    await this.#requests.abandon();
    await this.#texts.abandon();
    for (const path of this.#paths) await this.#disk.remove(path);
  }
}

function twice(rows: DataView<ArrayBuffer>): DataView<ArrayBuffer> {
  const more = new Uint8Array(rows.byteLength * 2);
  more.set(new Uint8Array(rows.buffer));
  return new DataView(more.buffer);
}

/** The items of a sealed batch, in memory; their texts are read when they are asked for. */
export class BatchItems {
  readonly items: number;
  readonly #rows: Buffer;
  readonly #texts: Buffer;

  private constructor(items: number, rows: Buffer, texts: Buffer) {
    this.items = items;
    this.#rows = rows;
    this.#texts = texts;
  }

  /** Undefined if the file does not hold so many items. */
  static async read(disk: Disk, path: string, items: number): Promise<BatchItems | undefined> {
    const sizeBytes = (await disk.stat(path))?.sizeBytes ?? 0;
    const rowsBytes = items * ROW_BYTES;
    if (sizeBytes < rowsBytes) return undefined;
    const file = await disk.open(path, "read");
    try {
      const bytes = Buffer.alloc(sizeBytes);
      if ((await file.read(bytes, 0)) < sizeBytes) return undefined;
      const texts = bytes.subarray(0, sizeBytes - rowsBytes);
      const rows = bytes.subarray(sizeBytes - rowsBytes);
      const isWhole = items === 0 || rows.readDoubleLE(rowsBytes - ROW_BYTES + 16) === texts.byteLength;
      return isWhole ? new BatchItems(items, rows, texts) : undefined;
    } finally {
      await file.close();
    }
  }

  /** Whether any item says what its answer must fit. */
  get hasSchemas(): boolean {
    return this.#texts.includes(BEFORE_SCHEMA);
  }

  lineOf(place: number): number {
    return this.#rows.readUInt32LE(place * ROW_BYTES + 24);
  }

  /** Bytes of the requests up to the one at `place`, this included. */
  endOf(place: number): number {
    return place < 0 ? 0 : this.#rows.readDoubleLE(place * ROW_BYTES + 8);
  }

  /** The item at a place from 0 to `items - 1`. */
  at(place: number): BatchItem {
    const at = place * ROW_BYTES;
    const start = place === 0 ? 0 : this.#rows.readDoubleLE(at - ROW_BYTES + 16);
    const text = this.#texts.toString("utf8", start, this.#rows.readDoubleLE(at + 16));
    const [rest = "", answers] = text.split(BEFORE_ANSWERS);
    const [texts = "", schema = ""] = rest.split(BEFORE_SCHEMA);
    const [keyJson = "", metadata = "", warnings = ""] = texts.split(SEPARATOR);
    return {
      offset: this.#rows.readDoubleLE(at),
      line: this.#rows.readUInt32LE(at + 24),
      length: this.#rows.readUInt32LE(at + 28),
      inputTokens: this.#rows.readUInt32LE(at + 32),
      maxOutputTokens: this.#rows.readUInt32LE(at + 36),
      most: {
        inputTokens: this.#rows.readUInt32LE(at + 40),
        maxOutputTokens: this.#rows.readUInt32LE(at + 44),
      },
      requeues: this.#rows.readUInt32LE(at + 48),
      keyJson,
      metadata,
      warnings,
      schema,
      answers: answers === undefined ? undefined : Number(answers),
    };
  }
}
