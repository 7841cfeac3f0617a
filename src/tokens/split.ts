/**
 * Cuts UTF-8 text into the pieces that an encoding merges, as the split patterns of o200k_base and cl100k_base do.
 *
 *   o200k_base   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
 *              | [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
 *              | \p{N}{1,3} | ?[^\s\p{L}\p{N}]+[\r\n/]* | \s*[\r\n]+ | \s+(?!\S) | \s+
 *   cl100k_base  (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,3}
 *              | ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
 *
 * (Source: registry.json of tiktoken 1.0.22.) The classes of characters are in the tables and are those of the
 * reference, whose Unicode version is not Node's; `\s` there holds U+0085 and not U+FEFF. Under `(?i:...)` the long
 * s, U+017F, is an s.
 *
 * Limits: the text must be valid UTF-8 and be followed by one byte SENTINEL. Every byte is read at most twice per
 * piece and never again later than the next piece, so cutting takes linear time on any text.
 */
import type { EncodingTables } from "./ranks.ts";

/** Classes of characters. LETTER is a letter without case, SPACE is white space but the newlines. */
export const OTHER = 0;
export const UPPER = 1;
export const LOWER = 2;
export const LETTER = 3;
export const MARK = 4;
export const NUMBER = 5;
export const SPACE = 6;
export const NEWLINE = 7;
/** Classes of bytes only: the end of the text, and a byte of a longer character. */
const END = 8;
export const BEYOND_ASCII = 9;

/** The byte that must follow the text; it is in no UTF-8 text. */
export const SENTINEL = 0xff;

const CLASS_MASK = 15;
const WIDTH_SHIFT = 4;
const ONE_BYTE = 1 << WIDTH_SHIFT;
const APOSTROPHE = 0x27;
const SLASH = 0x2f;

/** Cuts the text in `bytes`; which may be replaced between texts. Not for use by two callers at once. */
export class Splitter {
  /** Class of each byte, 256 of them. */
  readonly byteClasses: Uint8Array;
  /** The text, then SENTINEL. */
  bytes: Uint8Array = new Uint8Array([SENTINEL]);
  /** Classes of U+0000 to U+FFFF. */
  readonly #planeClasses: Uint8Array;
  readonly #classPages: Uint8Array;
  readonly #classes: Uint8Array;

  constructor(tables: Pick<EncodingTables, "classPages" | "classes">) {
    this.#classPages = tables.classPages;
    this.#classes = tables.classes;
    this.#planeClasses = new Uint8Array(0x10000);
    for (let page = 0; page < 256; page++) {
      const at = (tables.classPages[page] as number) << 8;
      this.#planeClasses.set(tables.classes.subarray(at, at + 256), page << 8);
    }
    this.byteClasses = new Uint8Array(256).fill(BEYOND_ASCII);
    this.byteClasses.set(this.#planeClasses.subarray(0, 0x80));
    this.byteClasses[SENTINEL] = END;
  }

  /** The end of the o200k_base piece that begins at `start`, which must be before the end of the text. */
  endOfO200k(start: number): number {
    const first = this.#at(start);
    const kind = first & CLASS_MASK;
    if (kind === NUMBER) return this.#endOfNumbers(start);
    if (kind === UPPER || kind === LOWER || kind === LETTER) {
      return this.endOfContraction(Math.abs(this.#endOfWord(start)));
    }
    const next = start + (first >> WIDTH_SHIFT);
    if (kind !== NEWLINE) {
      const end = this.#endOfWord(next);
      // A mark is a letter too: only before capitals, or before no letter, it is a separate word.
      if (kind === MARK) return this.endOfContraction(end > 0 ? end : next);
      if (end !== 0) return this.endOfContraction(Math.abs(end));
    }
    return this.#endOfRest(start, kind, next, true);
  }

  /** The end of the cl100k_base piece that begins at `start`, which must be before the end of the text. */
  endOfCl100k(start: number): number {
    const contraction = this.endOfContraction(start);
    if (contraction > start) return contraction;
    const first = this.#at(start);
    const kind = first & CLASS_MASK;
    if (kind === NUMBER) return this.#endOfNumbers(start);
    const next = start + (first >> WIDTH_SHIFT);
    if (kind !== NEWLINE) {
      const end = this.#endOfLetters(next);
      if (end > next || kind === UPPER || kind === LOWER || kind === LETTER) return end;
    }
    return this.#endOfRest(start, kind, next, false);
  }

  /** The end of 's, 't, 're, 've, 'm, 'll or 'd in either case at `start`; `start` if it does not have one there. */
  endOfContraction(start: number): number {
    const bytes = this.bytes;
    if (bytes[start] !== APOSTROPHE) return start;
    const raw = bytes[start + 1] as number;
    // U+017F is C5 BF.
    if (raw === 0xc5) return bytes[start + 2] === 0xbf ? start + 3 : start;
    const letter = raw | 0x20;
    if (letter === 0x73 || letter === 0x74 || letter === 0x6d || letter === 0x64) return start + 2;
    const second = (bytes[start + 2] as number) | 0x20;
    if ((letter === 0x72 || letter === 0x76) && second === 0x65) return start + 3;
    return letter === 0x6c && second === 0x6c ? start + 3 : start;
  }

  /**
   * The word of o200k_base that begins at `start`, without what may be before and after it: its end when the first
   * alternative matches it, minus its end when only the second does (only capitals), 0 without one.
   */
  #endOfWord(start: number): number {
    let end = start;
    let endOfCaseless = 0;
    let char = this.#at(end);
    for (;;) {
      const kind = char & CLASS_MASK;
      if (kind === LETTER || kind === MARK) endOfCaseless = end + (char >> WIDTH_SHIFT);
      else if (kind !== UPPER) break;
      end += char >> WIDTH_SHIFT;
      char = this.#at(end);
    }
    if ((char & CLASS_MASK) === LOWER) {
      for (;;) {
        const kind = char & CLASS_MASK;
        if (kind !== LOWER && kind !== LETTER && kind !== MARK) return end;
        end += char >> WIDTH_SHIFT;
        char = this.#at(end);
      }
    }
    // The small letters that the first alternative needs are taken back from the run: its last letter without case.
    if (endOfCaseless > 0) return endOfCaseless;
    return end > start ? -end : 0;
  }

  #endOfLetters(start: number): number {
    let end = start;
    for (;;) {
      const char = this.#at(end);
      const kind = char & CLASS_MASK;
      if (kind !== LOWER && kind !== UPPER && kind !== LETTER) return end;
      end += char >> WIDTH_SHIFT;
    }
  }

  #endOfNumbers(start: number): number {
    let end = start;
    for (let digits = 0; digits < 3; digits++) {
      const char = this.#at(end);
      if ((char & CLASS_MASK) !== NUMBER) break;
      end += char >> WIDTH_SHIFT;
    }
    return end;
  }

  /** The alternatives for what is neither word nor number: signs with newlines after them, and white space. */
  #endOfRest(start: number, kind: number, next: number, takesSlashes: boolean): number {
    if (kind === OTHER || kind === MARK) return this.#endOfSigns(next, takesSlashes);
    if (kind === SPACE && this.bytes[start] === 0x20) {
      const following = this.#at(next);
      const followingKind = following & CLASS_MASK;
      if (followingKind === OTHER || followingKind === MARK) {
        return this.#endOfSigns(next + (following >> WIDTH_SHIFT), takesSlashes);
      }
    }
    return this.#endOfWhiteSpace(start);
  }

  #endOfSigns(start: number, takesSlashes: boolean): number {
    let end = start;
    for (;;) {
      const char = this.#at(end);
      const kind = char & CLASS_MASK;
      if (kind !== OTHER && kind !== MARK) break;
      end += char >> WIDTH_SHIFT;
    }
    const bytes = this.bytes;
    for (;;) {
      const byte = bytes[end];
      if (byte !== 0x0a && byte !== 0x0d && !(takesSlashes && byte === SLASH)) return end;
      end++;
    }
  }

  #endOfWhiteSpace(start: number): number {
    let end = start;
    let last = start;
    let endOfNewlines = 0;
    for (;;) {
      const char = this.#at(end);
      const kind = char & CLASS_MASK;
      if (kind !== SPACE && kind !== NEWLINE) {
        if (endOfNewlines > 0) return endOfNewlines;
        return kind === END || last === start ? end : last;
      }
      last = end;
      end += char >> WIDTH_SHIFT;
      if (kind === NEWLINE) endOfNewlines = end;
    }
  }

  /** Width and class of the character at `index`. */
  #at(index: number): number {
    const bytes = this.bytes;
    const byte = bytes[index] as number;
    const kind = this.byteClasses[byte] as number;
    if (kind !== BEYOND_ASCII) return ONE_BYTE | kind;
    const second = (bytes[index + 1] as number) & 63;
    if (byte < 0xe0) {
      return (2 << WIDTH_SHIFT) | (this.#planeClasses[((byte & 31) << 6) | second] as number);
    }
    const third = (bytes[index + 2] as number) & 63;
    if (byte < 0xf0) {
      return (3 << WIDTH_SHIFT) | (this.#planeClasses[((byte & 15) << 12) | (second << 6) | third] as number);
    }
    const fourth = (bytes[index + 3] as number) & 63;
    return (4 << WIDTH_SHIFT) | this.#classOf(((byte & 7) << 18) | (second << 12) | (third << 6) | fourth);
  }

  #classOf(codePoint: number): number {
    return this.#classes[((this.#classPages[codePoint >> 8] as number) << 8) | (codePoint & 255)] as number;
  }
}
