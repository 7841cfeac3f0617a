/**
 * The answers of a run, found by the keys of rows whose order is about that of the file.
 *
 *   key of the next row -> the next line has it               the usual case: the file is read from front to back, once
 *                       -> it was read ahead of its row       its place is known by a hash of its key; a chunk that is kept has it, or is read again
 *                       -> neither                            lines are read ahead, and their places are noted, until it is found
 *
 * Limits: 32 chunks of 128 KiB (of a longer line, its length), and 12 bytes in a table at most 70 % full for each answer whose row is
 * still to come: where the first row is answered last, 17 to 34 MB for a million rows.
 *
 * Hot: of a line, only its key is decoded before its row asks for it.
 */
import type { Disk, DiskFile } from "../disk.ts";
import { PlacesByHash } from "./places_by_hash.ts";

const CHUNK_BYTES = 128 * 1024;
const CHUNKS_KEPT = 32;
const LINE_END = 0x0a;
const QUOTE = 0x22;
/** What an output line begins with. */
const HEAD = Buffer.from('{"key":"');

/** Whole lines of the file. */
interface Chunk {
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;
}

/** A file of answers that is complete. Close it once. */
export class AnswerLines {
  readonly #file: DiskFile;
  /** The one that was read last at the end. */
  readonly #chunks: Chunk[] = [];
  readonly #ahead = new PlacesByHash();
  /** Where the next line begins that was not read yet, in the chunk `#last` or after it. */
  #next = 0;
  #last: Chunk = { bytes: Buffer.alloc(0), start: 0, end: 0 };
  /** A place that is in no chunk, and that the last `take` would have read. */
  #missing: number | undefined;

  private constructor(file: DiskFile) {
    this.#file = file;
  }

  static async open(disk: Pick<Disk, "open">, path: string): Promise<AnswerLines> {
    return new AnswerLines(await disk.open(path, "read"));
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  /** The line with this key, without its end, if that needs no reading; undefined: `find` it. A line is returned once. */
  take(key: string): string | undefined {
    this.#missing = undefined;
    const hash = hashOf(key);
    if (this.#ahead.count > 0) {
      for (let slot = this.#ahead.first(hash); slot >= 0; slot = this.#ahead.after(slot)) {
        const place = this.#ahead.placeAt(slot);
        const chunk = this.#chunkWith(place);
        if (chunk === undefined) {
          this.#missing = place;
          return undefined;
        }
        const from = place - chunk.start;
        if (keyOf(chunk.bytes, from) !== key) continue;
        this.#ahead.remove(slot);
        return lineOf(chunk.bytes, from);
      }
    }
    return this.#scan(key);
  }

  /** The line with this key, without its end; undefined when the file has none. A line is returned once. */
  async find(key: string): Promise<string | undefined> {
    for (;;) {
      const line = this.take(key);
      if (line !== undefined) return line;
      if (this.#missing !== undefined) await this.#read(this.#missing);
      else {
        this.#last = await this.#read(this.#next);
        if (this.#last.end === this.#next) return undefined;
      }
    }
  }

  /** Reads on in the last chunk. */
  #scan(key: string): string | undefined {
    const { bytes, start, end } = this.#last;
    while (this.#next < end) {
      const place = this.#next;
      const from = place - start;
      const found = keyOf(bytes, from);
      this.#next = start + bytes.indexOf(LINE_END, from) + 1;
      if (found === key) return lineOf(bytes, from);
      this.#ahead.add(hashOf(found), place);
    }
    return undefined;
  }

  #chunkWith(place: number): Chunk | undefined {
    for (let index = this.#chunks.length - 1; index >= 0; index -= 1) {
      const chunk = this.#chunks[index] as Chunk;
      if (place >= chunk.start && place < chunk.end) return chunk;
    }
    return undefined;
  }

  /** The chunk of the lines from there on: at least one, but at the end of the file. */
  async #read(start: number): Promise<Chunk> {
    let bytes = this.#freeBytes();
    for (;;) {
      const length = await this.#file.read(bytes, start);
      const lines = bytes.subarray(0, length).lastIndexOf(LINE_END) + 1;
      if (lines > 0 || length < bytes.byteLength) {
        const chunk = { bytes, start, end: start + lines };
        this.#chunks.push(chunk);
        return chunk;
      }
      bytes = Buffer.allocUnsafeSlow(bytes.byteLength * 2);
    }
  }

  /** Those of the oldest chunk but `#last`, so that a long file leaves no garbage. */
  #freeBytes(): Buffer {
    if (this.#chunks.length >= CHUNKS_KEPT) {
      const index = this.#chunks[0] === this.#last ? 1 : 0;
      const [oldest] = this.#chunks.splice(index, 1);
      if (oldest?.bytes.byteLength === CHUNK_BYTES) return oldest.bytes;
    }
    return Buffer.allocUnsafeSlow(CHUNK_BYTES);
  }
}

/** The key of the line that begins there. */
function keyOf(bytes: Buffer, from: number): string {
  const keyStart = from + HEAD.byteLength;
  if (bytes.compare(HEAD, 0, HEAD.byteLength, from, keyStart) === 0) {
    const key = bytes.toString("utf8", keyStart, bytes.indexOf(QUOTE, keyStart));
    if (!key.includes("\\")) return key;
  }
  return (JSON.parse(lineOf(bytes, from)) as { readonly key: string }).key; // the engine wrote it
}

function lineOf(bytes: Buffer, from: number): string {
  return bytes.toString("utf8", from, bytes.indexOf(LINE_END, from));
}

/** FNV-1a of its UTF-16 units. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < key.length; index += 1)
    hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}
