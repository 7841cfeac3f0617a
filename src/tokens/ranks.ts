/**
 * The tables of an encoding: one binary file per encoding, written by `scripts/build_ranks.ts` and read here in one
 * piece as views, so that a thread has them in about 5 ms and 8 MB (o200k_base) without an object per token.
 *
 * Format (little-endian, 32-bit words): a header of HEADER_WORDS words, then the sections in the order of
 * `EncodingTables`, each padded to a whole word.
 *
 *   header = MAGIC, FORMAT, tokens, trie cells, pair slots, class pages, 2 words unused, fingerprint (8 words)
 *
 * The trie is a double array over the bytes of the tokens. A cell is `base << 10 | isToken << 9 | isUsed << 8 | byte`;
 * the child of cell `c` by byte `b` is the cell `base(c) ^ b`, if that cell is used and carries `b`. Cells 0 to 255
 * stay empty, so a base of 0 means "no children". The root is the cell TRIE_ROOT.
 *
 * The pairs are a hash table with linear probing. A slot is 0, or `tag << 18 | token + 1`, where `token` is what the
 * pair (left, right) merges into and `tag` is TAG_BITS of its hash.
 *
 * Limits: at most 2^18 - 2 tokens of at most 255 bytes, at most 2^22 cells.
 */
import { readFileSync } from "node:fs";
import { endianness } from "node:os";
import { fileURLToPath } from "node:url";
import { builtFile } from "../built_files.ts";
import { PerigeeError } from "../errors.ts";

/** The encodings that can be counted exactly. */
export type EncodingName = "o200k_base" | "cl100k_base";

/** Views of one encoding's file. Tokens are named by their rank: the lower of two merges is done first. */
export interface EncodingTables {
  readonly encoding: EncodingName;
  readonly trieCells: Int32Array;
  /** The token that ends in a cell; meaningless where the cell's token bit is not set. */
  readonly trieTokens: Int32Array;
  readonly pairSlots: Int32Array;
  /** The two tokens that merge into a token; the token itself for single bytes. */
  readonly lefts: Int32Array;
  readonly rights: Int32Array;
  /** The longest token that begins a token and is shorter; -1 without one. */
  readonly prefixes: Int32Array;
  readonly lengthsBytes: Uint8Array;
  /** Page of a code point's class, by `codePoint >> 8`. */
  readonly classPages: Uint8Array;
  /** Classes (see `split.ts`), by `page << 8 | codePoint & 255`. */
  readonly classes: Uint8Array;
}

const MAGIC = 0x6b6e7267;
const FORMAT = 1;
const HEADER_WORDS = 16;
export const FINGERPRINT_WORD = 8;
export const TRIE_ROOT = 256;
export const CLASS_PAGES = 4352;
const TAG_BITS = 13;

/** The hash of a pair of tokens; its top bits choose the slot, its lowest TAG_BITS are the tag. */
export function hashOfPair(left: number, right: number): number {
  const mixed = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca77);
  return Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d);
}

/** The tag of a hash, placed as in a slot. */
export function tagOfHash(hash: number): number {
  return (hash & ((1 << TAG_BITS) - 1)) << 18;
}

/** Reads the tables of an encoding; throws `store_damaged` when the file is missing or not of this version. */
export function readTables(
  encoding: EncodingName,
  url: URL = builtFile(`ranks/${encoding}.bin`),
): EncodingTables {
  const path = fileURLToPath(url);
  let file: Buffer;
  try {
    file = readFileSync(path);
  } catch (cause) {
    throw new PerigeeError(
      "store_damaged",
      `the token table ${path} cannot be read: run "npm run build" in a source tree, or install perigee again`,
      { cause },
    );
  }
  const tables = viewTables(encoding, file);
  if (tables === undefined) {
    throw new PerigeeError(
      "store_damaged",
      `the token table ${path} is damaged or of another version (expected format ${FORMAT}): ` +
        `run "npm run build" in a source tree, or install perigee again`,
    );
  }
  return tables;
}

function viewTables(encoding: EncodingName, file: Buffer): EncodingTables | undefined {
  if (endianness() !== "LE" || file.byteLength < HEADER_WORDS * 4) return undefined;
  const bytes = file.byteOffset % 4 === 0 ? file : new Uint8Array(file);
  const header = new Int32Array(bytes.buffer, bytes.byteOffset, HEADER_WORDS);
  const [magic, format, tokens = 0, cells = 0, slots = 0, pages = 0] = header;
  if (magic !== MAGIC || format !== FORMAT) return undefined;
  const words = HEADER_WORDS + 2 * cells + slots + 3 * tokens;
  const sizeBytes = words * 4 + wholeWords(tokens) + wholeWords(CLASS_PAGES) + wholeWords(pages << 8);
  if (bytes.byteLength !== sizeBytes) return undefined;
  let offset = bytes.byteOffset + HEADER_WORDS * 4;
  const takeWords = (length: number): Int32Array => {
    const view = new Int32Array(bytes.buffer, offset, length);
    offset += length * 4;
    return view;
  };
  const takeBytes = (length: number): Uint8Array => {
    const view = new Uint8Array(bytes.buffer, offset, length);
    offset += wholeWords(length);
    return view;
  };
  return {
    encoding,
    trieCells: takeWords(cells),
    trieTokens: takeWords(cells),
    pairSlots: takeWords(slots),
    lefts: takeWords(tokens),
    rights: takeWords(tokens),
    prefixes: takeWords(tokens),
    lengthsBytes: takeBytes(tokens),
    classPages: takeBytes(CLASS_PAGES),
    classes: takeBytes(pages << 8),
  };
}

/** The file's bytes for these tables; `fingerprint` has 32 bytes and shows whether a file is up to date. */
export function packTables(tables: Omit<EncodingTables, "encoding">, fingerprint: Uint8Array): Uint8Array {
  const header = new Int32Array(HEADER_WORDS);
  header.set([MAGIC, FORMAT, tables.lefts.length, tables.trieCells.length, tables.pairSlots.length]);
  header[5] = tables.classes.length >> 8;
  const sections = [
    header,
    tables.trieCells,
    tables.trieTokens,
    tables.pairSlots,
    tables.lefts,
    tables.rights,
    tables.prefixes,
    tables.lengthsBytes,
    tables.classPages,
    tables.classes,
  ];
  const file = new Uint8Array(sections.reduce((sum, section) => sum + wholeWords(section.byteLength), 0));
  let offset = 0;
  for (const section of sections) {
    file.set(new Uint8Array(section.buffer, section.byteOffset, section.byteLength), offset);
    offset += wholeWords(section.byteLength);
  }
  file.set(fingerprint, FINGERPRINT_WORD * 4);
  return file;
}

function wholeWords(lengthBytes: number): number {
  return (lengthBytes + 3) & ~3;
}
