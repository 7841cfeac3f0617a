/**
 * The keys of a block as 64-bit hashes, for finding keys that are on two lines.
 *
 * A line that begins with its key (`{"key":"..."` or `{"custom_id":"..."`, no escape in it) is not parsed: the bytes of
 * the key are hashed unchanged. All other lines go through `readKey`, and the same bytes in UTF-8 are hashed. So
 * every readable key has its hash; a line that is broken further on may yield one too, and equal hashes are only a
 * suspicion: ask again with `wantKeys`, which parses and yields only readable keys, of all lines or of those whose hash is
 * in a filter.
 *
 * Hash: two lanes of MurmurHash3's x86_128 rounds over 32-bit words, crossed at the end (Austin Appleby, public
 * domain). Unkeyed: collisions made on purpose only slow down the check of that file.
 *
 * Hot path: at least 1 GB/s on lines of 600 bytes (`bench/parts/read.ts`).
 */
import type { Block } from "./block.ts";
import { asBuffer, eachLine } from "./lines.ts";
import { KEY_BYTES_MAX, readKey } from "./record.ts";

/** Column `i` of every array belongs to the same key; keys are in the order of their lines. */
export interface KeyColumns {
  readonly count: number;
  /** Line numbers in the input, from 1. */
  readonly lines: Uint32Array<ArrayBuffer>;
  /** High and low half of each hash, alternating. */
  readonly hashes: Uint32Array<ArrayBuffer>;
  /** The keys in UTF-8, end to end; empty unless wanted. */
  readonly keys: Uint8Array<ArrayBuffer>;
  /** Key `i` spans `keyEnds[i-1]..keyEnds[i]`; empty unless wanted. */
  readonly keyEnds: Uint32Array<ArrayBuffer>;
}

export interface KeyScanOptions {
  /** Parse every line: exact, and with the keys themselves. */
  readonly wantKeys?: boolean | undefined;
  /** With `wantKeys`: leave out keys whose hash is not in this filter; such a line is not parsed when it is plain. */
  readonly filter?: KeyFilter | undefined;
}

/** A set of hashes that may take others for its own: a bit for each value of 16 of their bits, 8 KiB. */
export type KeyFilter = Uint8Array<ArrayBuffer>;

/** A 64-bit hash as two unsigned 32-bit halves. */
export interface KeyHash {
  readonly high: number;
  readonly low: number;
}

/** Hashes the keys of a block's lines. Lines without a readable key yield nothing, with the exception above. */
export function scanKeys(
  block: Pick<Block, "bytes" | "firstLine">,
  options: KeyScanOptions = {},
): KeyColumns {
  const bytes = asBuffer(block.bytes);
  const { filter } = options;
  const view = viewOf(bytes);
  const columns = new ColumnWriter(options.wantKeys === true, filter);
  let line = block.firstLine;
  eachLine(bytes, (start, end) => {
    let found = SLOW;
    if (options.wantKeys !== true) found = plainKey(bytes, start, end);
    else if (filter !== undefined && !mayHold(filter, bytes, view, start, end)) found = UNREADABLE;
    if (found === SLOW) {
      const read = readKey(bytes.subarray(start, end));
      if (read.ok) {
        const key = Buffer.from(read.key);
        columns.add(line, key, viewOf(key), 0, key.length);
      }
    } else if (found >= 0) {
      columns.add(line, bytes, view, keyStart, found);
    }
    line++;
  });
  return columns.finish();
}

/** A filter of the hashes with these high halves. */
export function keyFilter(highs: Iterable<number>): KeyFilter {
  const filter = new Uint8Array(FILTER_BYTES);
  for (const high of highs) {
    const at = (high >>> 3) & (FILTER_BYTES - 1);
    filter[at] = (filter[at] as number) | (1 << (high & 7));
  }
  return filter;
}

/** The hash of a key in UTF-8. */
export function hashKey(bytes: Uint8Array): KeyHash {
  return hashOf(viewOf(bytes), 0, bytes.length);
}

/** The hash of the bytes from `start` to `end`. A view reads four of them at a time: 0.7 us for 600 instead of 1.5 us. */
export function hashOf(view: DataView, start: number, end: number): KeyHash {
  hashInto(view, start, end);
  return { high: hashHigh, low: hashLow };
}

/** For `hashOf`, with the same offsets. */
export function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

const FILTER_BYTES = 8 * 1024;

/** Needs the whole line parsed. */
const SLOW = -1;
/** Cannot have a readable key. */
const UNREADABLE = -2;

const NAMES: readonly Uint8Array[] = [Buffer.from('key"'), Buffer.from('custom_id"')];

// Results beside the returned one, as module state: an object per line would be the largest cost of the pass.
let keyStart = 0;
let hashHigh = 0;
let hashLow = 0;

/** Where the key of a line ends when it is its first member and plain, its start in `keyStart`; SLOW or UNREADABLE. */
function plainKey(bytes: Uint8Array, start: number, end: number): number {
  let at = afterBlanks(bytes, start, end);
  if (at >= end) return UNREADABLE;
  if (bytes[at] !== 0x7b) return UNREADABLE; // an object begins with a brace
  at = afterBlanks(bytes, at + 1, end);
  if (bytes[at] !== 0x22) return SLOW;
  const name = bytes[at + 1] === 0x6b ? NAMES[0] : NAMES[1];
  at++;
  for (const byte of name as Uint8Array) if (bytes[at++] !== byte) return SLOW;
  at = afterBlanks(bytes, at, end);
  if (bytes[at] !== 0x3a) return SLOW;
  at = afterBlanks(bytes, at + 1, end);
  if (bytes[at] !== 0x22) return SLOW;
  keyStart = at + 1;
  const last = Math.min(end, keyStart + KEY_BYTES_MAX + 1);
  for (at = keyStart; at < last; at++) {
    const byte = bytes[at] as number;
    if (byte === 0x22) return at === keyStart ? UNREADABLE : at;
    if (byte === 0x5c) return SLOW;
    if (byte < 0x20) return UNREADABLE;
  }
  return SLOW;
}

/** False when the line has no key whose hash is in the filter; a line that is not plain may have one. */
function mayHold(filter: KeyFilter, bytes: Uint8Array, view: DataView, start: number, end: number): boolean {
  const found = plainKey(bytes, start, end);
  if (found < 0) return found === SLOW;
  hashInto(view, keyStart, found);
  return isIn(filter, hashHigh);
}

function isIn(filter: KeyFilter, high: number): boolean {
  return ((filter[(high >>> 3) & (FILTER_BYTES - 1)] as number) & (1 << (high & 7))) !== 0;
}

function afterBlanks(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) break;
    at++;
  }
  return at;
}

function hashInto(view: DataView, start: number, end: number): void {
  let high = 0x9368e53c;
  let low = 0x586dcd20;
  let at = start;
  for (; at + 4 <= end; at += 4) {
    const word = view.getInt32(at, true);
    high = mixHigh(high, low, word);
    low = mixLow(low, high, word);
  }
  let tail = 0;
  for (; at < end; at++) tail = (tail << 8) | view.getUint8(at);
  const length = end - start;
  high = mixHigh(high, low, tail) ^ length;
  low = mixLow(low, high, tail) ^ length;
  high = (high + low) | 0;
  low = (low + high) | 0;
  high = finalMix(high);
  low = finalMix(low);
  high = (high + low) | 0;
  low = (low + high) | 0;
  hashHigh = high >>> 0;
  hashLow = low >>> 0;
}

function mixHigh(high: number, low: number, word: number): number {
  const mixed = Math.imul(rotate(Math.imul(word, 0x239b961b), 15), 0xab0e9789);
  return (Math.imul((rotate(high ^ mixed, 19) + low) | 0, 5) + 0x561ccd1b) | 0;
}

function mixLow(low: number, high: number, word: number): number {
  const mixed = Math.imul(rotate(Math.imul(word, 0x38b34ae5), 17), 0xa1e38b93);
  return (Math.imul((rotate(low ^ mixed, 15) + high) | 0, 5) + 0x96cd1c35) | 0;
}

function finalMix(value: number): number {
  let mixed = value;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}

function rotate(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits));
}

class ColumnWriter {
  readonly #wantKeys: boolean;
  readonly #filter: KeyFilter | undefined;
  #count = 0;
  #lines = new Uint32Array(256);
  #hashes = new Uint32Array(512);
  readonly #keys: Uint8Array[] = [];
  readonly #keyEnds: number[] = [];
  #keyBytes = 0;

  constructor(wantKeys: boolean, filter: KeyFilter | undefined) {
    this.#wantKeys = wantKeys;
    this.#filter = filter;
  }

  /** The key in `bytes`, which `view` shows. */
  add(line: number, bytes: Uint8Array, view: DataView, start: number, end: number): void {
    hashInto(view, start, end);
    if (this.#filter !== undefined && !isIn(this.#filter, hashHigh)) return;
    if (this.#count === this.#lines.length) {
      this.#lines = grown(this.#lines);
      this.#hashes = grown(this.#hashes);
    }
    this.#lines[this.#count] = line;
    this.#hashes[this.#count * 2] = hashHigh;
    this.#hashes[this.#count * 2 + 1] = hashLow;
    this.#count++;
    if (!this.#wantKeys) return;
    this.#keys.push(bytes.subarray(start, end));
    this.#keyBytes += end - start;
    this.#keyEnds.push(this.#keyBytes);
  }

  finish(): KeyColumns {
    const keys = new Uint8Array(this.#keyBytes);
    for (const [index, key] of this.#keys.entries())
      keys.set(key, (this.#keyEnds[index] as number) - key.length);
    return {
      count: this.#count,
      lines: this.#lines.slice(0, this.#count),
      hashes: this.#hashes.slice(0, this.#count * 2),
      keys,
      keyEnds: Uint32Array.from(this.#keyEnds),
    };
  }
}

function grown(array: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(array.length * 2);
  larger.set(array);
  return larger;
}
