/**
 * Counts the tokens of texts in one encoding: the loop for every prompt of a run.
 *
 * A text is written into a byte buffer as UTF-8, which also makes U+FFFD of lone surrogates. Words of ASCII letters are
 * cut right here, all else by `split.ts`; the counts of pieces of up to 60 bytes are kept in two small tables that hold
 * the latest piece per slot, the rest is counted by `merge.ts`. Names of special tokens are plain text.
 *
 * Hot path: at least 20 million tokens/s on English prompts of 600 bytes, `bench/parts/count.ts`. Reading bytes from a
 * buffer is twice as fast as `charCodeAt`, and the table of latest pieces answers about nine pieces in ten.
 *
 * Limits: time is linear in the length of the text; a text above ROOM_BYTES gets its own buffer, freed afterwards.
 */
import { PieceMerger } from "./merge.ts";
import type { EncodingTables } from "./ranks.ts";
import { BEYOND_ASCII, NUMBER, OTHER, SENTINEL, SPACE, Splitter } from "./split.ts";

/** Buffer kept between texts, in bytes. */
const ROOM_BYTES = 1 << 16;
/** Bytes read beyond the last piece: the sentinel, and what the table's key takes in. */
const MARGIN_BYTES = 16;
/** UTF-8 bytes that a UTF-16 unit takes at most. */
const BYTES_PER_UNIT = 3;
const APOSTROPHE = 0x27;
const CAPITAL_A = 0x41;
const SMALL_A = 0x61;
const CASE_BIT = 0x20;
const LETTERS = 26;
const BEYOND_ASCII_FROM = 0x80;
/** Digits in one piece. */
const DIGITS_MAX = 3;

/** Pieces of at most this many bytes are kept in the table of latest pieces. */
const KEY_BYTES = 12;
const LATEST_BITS = 15;
/** Longer ones, of at most this many bytes, have a table of their own with slots of LONG_WORDS words. */
const LONG_BYTES = 60;
const LONG_WORDS = 16;
const LONG_BITS = 12;
/** Which bits of the key's three words belong to a piece of a given length. */
const KEY_MASKS = [0, 4, 8].map((offset) =>
  Int32Array.from({ length: KEY_BYTES + 1 }, (_, length) => {
    const bytes = Math.min(Math.max(length - offset, 0), 4);
    return bytes === 4 ? -1 : (1 << (bytes * 8)) - 1;
  }),
);
const [MASK_0, MASK_1, MASK_2] = KEY_MASKS as [Int32Array, Int32Array, Int32Array];

/** Counts texts. Not for use by two callers at once. */
export class TokenCounter {
  readonly #isO200k: boolean;
  readonly #splitter: Splitter;
  readonly #merger: PieceMerger;
  readonly #encoder = new TextEncoder();
  #bytes = new Uint8Array(ROOM_BYTES + MARGIN_BYTES);
  #view = new DataView(this.#bytes.buffer);
  /** Four words a slot: three of the piece, then `length << 16 | count`. */
  readonly #latest = new Int32Array(4 << LATEST_BITS);

  /** A slot is `length << 16 | count`, then the piece in words; its last word begins 4 bytes before its end. */
  readonly #latestLong = new Int32Array(LONG_WORDS << LONG_BITS);

  constructor(tables: EncodingTables) {
    this.#isO200k = tables.encoding === "o200k_base";
    this.#splitter = new Splitter(tables);
    this.#merger = new PieceMerger(tables);
    this.#splitter.bytes = this.#bytes;
  }

  /** Tokens tried by merging since this was made: the part of the work that tests must bound. */
  get mergeSteps(): number {
    return this.#merger.steps;
  }

  /** Tokens of `text`; 0 when it is empty. */
  count(text: string): number {
    if (text.length * BYTES_PER_UNIT > ROOM_BYTES) return this.#countLong(text);
    const end = this.#encoder.encodeInto(text, this.#bytes).written;
    return this.#countTo(end);
  }

  #countLong(text: string): number {
    const kept = this.#bytes;
    this.#use(new Uint8Array(Buffer.byteLength(text) + MARGIN_BYTES));
    try {
      return this.#countTo(this.#encoder.encodeInto(text, this.#bytes).written);
    } finally {
      this.#use(kept);
    }
  }

  #use(bytes: Uint8Array<ArrayBuffer>): void {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
    this.#splitter.bytes = bytes;
  }

  #countTo(end: number): number {
    this.#bytes[end] = SENTINEL;
    return this.#isO200k ? this.#countO200k(end) : this.#countCl100k(end);
  }

  #countO200k(end: number): number {
    const bytes = this.#bytes;
    const classes = this.#splitter.byteClasses;
    let count = 0;
    let start = 0;
    while (start < end) {
      let index = start;
      let byte = bytes[index] as number;
      const kind = classes[byte] as number;
      if (kind === SPACE || kind === OTHER) byte = bytes[++index] as number;
      const word = index;
      while ((byte - CAPITAL_A) >>> 0 < LETTERS) byte = bytes[++index] as number;
      while ((byte - SMALL_A) >>> 0 < LETTERS) byte = bytes[++index] as number;
      if (index === word) index = this.#endOfOther(start, word) || this.#splitter.endOfO200k(start);
      else if (byte >= BEYOND_ASCII_FROM && byte !== SENTINEL) index = this.#splitter.endOfO200k(start);
      else if (byte === APOSTROPHE) index = this.#splitter.endOfContraction(index);
      count += this.#tokensOf(start, index);
      start = index;
    }
    return count;
  }

  #countCl100k(end: number): number {
    const bytes = this.#bytes;
    const classes = this.#splitter.byteClasses;
    let count = 0;
    let start = 0;
    while (start < end) {
      let index = start;
      let byte = bytes[index] as number;
      const kind = classes[byte] as number;
      if (kind === SPACE || (kind === OTHER && byte !== APOSTROPHE)) byte = bytes[++index] as number;
      const word = index;
      while (((byte | CASE_BIT) - SMALL_A) >>> 0 < LETTERS) byte = bytes[++index] as number;
      if (index === word) index = this.#endOfOther(start, word) || this.#splitter.endOfCl100k(start);
      else if (byte >= BEYOND_ASCII_FROM && byte !== SENTINEL) index = this.#splitter.endOfCl100k(start);
      count += this.#tokensOf(start, index);
      start = index;
    }
    return count;
  }

  /**
   * The commonest pieces that are not words: a number in ASCII digits, one sign before a space or a digit, one space
   * before a digit. `next` is past the sign or space, if one begins the piece. 0 for all else.
   */
  #endOfOther(start: number, next: number): number {
    const bytes = this.#bytes;
    const classes = this.#splitter.byteClasses;
    const kind = classes[bytes[next] as number] as number;
    if (next > start) {
      if (kind === NUMBER) return next;
      return kind === SPACE && classes[bytes[start] as number] === OTHER ? next : 0;
    }
    if (kind !== NUMBER) return 0;
    let end = start + 1;
    while (end < start + DIGITS_MAX) {
      const following = classes[bytes[end] as number] as number;
      if (following === BEYOND_ASCII) return 0;
      if (following !== NUMBER) break;
      end++;
    }
    return end;
  }

  /** Tokens of one piece. */
  #tokensOf(start: number, end: number): number {
    const length = end - start;
    if (length === 1) return 1;
    if (length > KEY_BYTES) return this.#tokensOfLong(start, end);
    const view = this.#view;
    const latest = this.#latest;
    const first = view.getInt32(start, true) & (MASK_0[length] as number);
    const second = view.getInt32(start + 4, true) & (MASK_1[length] as number);
    const third = view.getInt32(start + 8, true) & (MASK_2[length] as number);
    const mixed = Math.imul(first, 0x9e3779b1) + Math.imul(second, 0x85ebca77) + Math.imul(third, 0xc2b2ae3d);
    const slot = ((mixed ^ (mixed >>> 15)) >>> (32 - LATEST_BITS)) << 2;
    const known = latest[slot + 3] as number;
    if (
      latest[slot] === first &&
      latest[slot + 1] === second &&
      latest[slot + 2] === third &&
      known >>> 16 === length
    ) {
      return known & 0xffff;
    }
    const count = this.#merger.count(this.#bytes, start, end);
    latest[slot] = first;
    latest[slot + 1] = second;
    latest[slot + 2] = third;
    latest[slot + 3] = (length << 16) | count;
    return count;
  }

  /** Tokens of a piece above KEY_BYTES: words of scripts that take several bytes a letter. */
  #tokensOfLong(start: number, end: number): number {
    const length = end - start;
    if (length > LONG_BYTES) return this.#merger.count(this.#bytes, start, end);
    const view = this.#view;
    const latest = this.#latestLong;
    const last = view.getInt32(end - 4, true);
    let hash = Math.imul(last, 0x9e3779b1) ^ length;
    for (let at = start; at < end - 4; at += 4) {
      hash = Math.imul(hash ^ (hash >>> 15) ^ view.getInt32(at, true), 0x85ebca77);
    }
    const slot = ((hash ^ (hash << 13)) >>> (32 - LONG_BITS)) * LONG_WORDS;
    const known = latest[slot] as number;
    if (known >>> 16 === length && latest[slot + 1] === last) {
      let word = slot + 2;
      let at = start;
      for (; at < end - 4 && latest[word] === view.getInt32(at, true); at += 4) word++;
      if (at >= end - 4) return known & 0xffff;
    }
    const count = this.#merger.count(this.#bytes, start, end);
    latest[slot] = (length << 16) | count;
    latest[slot + 1] = last;
    for (let at = start, word = slot + 2; at < end - 4; at += 4) latest[word++] = view.getInt32(at, true);
    return count;
  }
}
