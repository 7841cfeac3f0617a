/**
 * Writes the tables of the encodings to `dist/files/ranks/<encoding>.bin` (format: `src/tokens/ranks.ts`).
 *
 * Ranks and classes of characters both come from the dev dependency tiktoken, the reference, so that they agree with it
 * for any Unicode version of Node. The result depends on nothing else; a file that was written from the same source
 * and the same tiktoken is not changed.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import {
  CLASS_PAGES,
  type EncodingName,
  type EncodingTables,
  FINGERPRINT_WORD,
  hashOfPair,
  packTables,
  tagOfHash,
} from "../src/tokens/ranks.ts";
import { LETTER, LOWER, MARK, NEWLINE, NUMBER, SPACE, UPPER } from "../src/tokens/split.ts";
import { buildTrie } from "./trie.ts";

/** The part of a pair's slot that is `token + 1`. */
const TOKEN_MASK = (1 << 18) - 1;
const TIKTOKEN_VERSION = "1.0.22";
const ENCODINGS: readonly EncodingName[] = ["o200k_base", "cl100k_base"];

const require = createRequire(import.meta.url);
const folder = new URL("../dist/files/ranks/", import.meta.url);

function main(): void {
  const manifest = new URL("../node_modules/tiktoken/package.json", import.meta.url);
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
  if (version !== TIKTOKEN_VERSION) {
    throw new Error(`tiktoken ${version} is installed, the tables are made from ${TIKTOKEN_VERSION}`);
  }
  const fingerprint = fingerprintOfSources();
  const stale = ENCODINGS.filter((encoding) => !isUpToDate(encoding, fingerprint));
  if (stale.length === 0) return;
  mkdirSync(folder, { recursive: true });
  const classes = readClasses();
  for (const encoding of stale) {
    const file = packTables({ ...buildTables(readTokens(encoding)), ...classes }, fingerprint);
    const path = fileURLToPath(new URL(`${encoding}.bin`, folder));
    const partial = `${path}.${process.pid}.part`;
    writeFileSync(partial, file);
    renameSync(partial, path);
    console.log(`${encoding}.bin ${(file.byteLength / 1e6).toFixed(1)} MB`);
  }
}

function fingerprintOfSources(): Uint8Array {
  const hash = createHash("sha256").update(TIKTOKEN_VERSION);
  for (const path of ["./build_ranks.ts", "./trie.ts", "../src/tokens/ranks.ts", "../src/tokens/split.ts"]) {
    hash.update(readFileSync(new URL(path, import.meta.url)));
  }
  return hash.digest();
}

function isUpToDate(encoding: EncodingName, fingerprint: Uint8Array): boolean {
  const url = new URL(`${encoding}.bin`, folder);
  if (!existsSync(url)) return false;
  const start = FINGERPRINT_WORD * 4;
  return readFileSync(url)
    .subarray(start, start + fingerprint.length)
    .equals(fingerprint);
}

/** The bytes of every token, by rank, as strings of one character per byte. */
function readTokens(encoding: EncodingName): string[] {
  const { bpe_ranks: ranks } = require(`tiktoken/encoders/${encoding}.json`) as { bpe_ranks: string };
  const tokens: string[] = [];
  for (const line of ranks.split("\n")) {
    const [, firstRank, ...encoded] = line.split(" ");
    let rank = Number(firstRank);
    for (const token of encoded) tokens[rank++] = Buffer.from(token, "base64").toString("latin1");
  }
  return tokens;
}

type RankTables = Omit<EncodingTables, "encoding" | "classPages" | "classes">;

function buildTables(tokens: readonly string[]): RankTables {
  const ranks = new Map(tokens.map((token, rank) => [token, rank]));
  const prefixes = Int32Array.from(tokens, (token) => {
    for (let length = token.length - 1; length > 0; length--) {
      const rank = ranks.get(token.slice(0, length));
      if (rank !== undefined) return rank;
    }
    return -1;
  });
  return {
    ...buildTrie(tokens),
    ...splitTokens(tokens, ranks),
    prefixes,
    lengthsBytes: Uint8Array.from(tokens, (token) => token.length),
  };
}

/** The last merge of every token, found by merging its bytes with the tokens of lower rank. */
function splitTokens(
  tokens: readonly string[],
  ranks: ReadonlyMap<string, number>,
): Pick<RankTables, "lefts" | "rights" | "pairSlots"> {
  const lefts = Int32Array.from(tokens.keys());
  const rights = Int32Array.from(tokens.keys());
  const pairs = { lefts, rights, pairSlots: new Int32Array(1 << Math.ceil(Math.log2(tokens.length * 2))) };
  const bytes = Array.from({ length: 256 }, (_, byte) => ranks.get(String.fromCharCode(byte)));
  tokens.forEach((token, rank) => {
    if (token.length === 1) return;
    const parts = Array.from(token, (char) => bytes[char.charCodeAt(0)] as number);
    mergeParts(parts, pairs);
    const [left, right] = parts;
    // What `src/tokens/merge.ts` relies on; it has held for every encoding published so far.
    if (left === undefined || right === undefined || parts.length !== 2 || Math.max(left, right) > rank) {
      throw new Error(`token ${rank} is not what merging makes of its bytes`);
    }
    lefts[rank] = left;
    rights[rank] = right;
    const slot = slotOf(left, right, pairs);
    pairs.pairSlots[slot] = tagOfHash(hashOfPair(left, right)) | (rank + 1);
  });
  return pairs;
}

/** Merges until two parts are left or nothing can be merged: the pair of lowest rank first, the leftmost of equals. */
function mergeParts(parts: number[], pairs: Pick<RankTables, "lefts" | "rights" | "pairSlots">): void {
  while (parts.length > 2) {
    let lowest = Number.POSITIVE_INFINITY;
    let at = -1;
    for (let index = 0; index + 1 < parts.length; index++) {
      const slot = slotOf(parts[index] as number, parts[index + 1] as number, pairs);
      const merged = ((pairs.pairSlots[slot] as number) & TOKEN_MASK) - 1;
      if (merged >= 0 && merged < lowest) {
        lowest = merged;
        at = index;
      }
    }
    if (at < 0) return;
    parts[at] = lowest;
    parts.splice(at + 1, 1);
  }
}

/** The slot that holds a pair, or the empty one where it belongs. */
function slotOf(
  left: number,
  right: number,
  pairs: Pick<RankTables, "lefts" | "rights" | "pairSlots">,
): number {
  const { pairSlots, lefts, rights } = pairs;
  const mask = pairSlots.length - 1;
  let slot = hashOfPair(left, right) >>> Math.clz32(mask);
  for (;;) {
    const token = ((pairSlots[slot] as number) & TOKEN_MASK) - 1;
    if (token < 0 || (lefts[token] === left && rights[token] === right)) return slot;
    slot = (slot + 1) & mask;
  }
}

/** The class of every code point, asked of the reference: an encoder that keeps only what its pattern matches. */
function readClasses(): Pick<EncodingTables, "classPages" | "classes"> {
  const classOf = new Uint8Array(CLASS_PAGES << 8);
  const text = everyCodePoint();
  const patterns: readonly (readonly [string, number])[] = [
    ["\\p{Lu}|\\p{Lt}", UPPER],
    ["\\p{Ll}", LOWER],
    ["\\p{Lm}|\\p{Lo}", LETTER],
    ["\\p{M}", MARK],
    ["\\p{N}", NUMBER],
    ["\\s", SPACE],
  ];
  for (const [pattern, kind] of patterns) {
    for (const char of matchesOf(pattern, text)) classOf[char.codePointAt(0) as number] = kind;
  }
  for (const newline of "\r\n") classOf[newline.charCodeAt(0)] = NEWLINE;
  return packClasses(classOf);
}

/** All of Unicode but the planes that have no characters (4 to 13) or private ones only (15 and 16). */
function everyCodePoint(): string {
  const chunks: string[] = [];
  for (const plane of [0, 1, 2, 3, 14]) {
    for (let low = 0; low < 0x10000; low += 0x800) {
      if (plane === 0 && low === 0xd800) continue;
      chunks.push(
        String.fromCodePoint(...Array.from({ length: 0x800 }, (_, at) => plane * 0x10000 + low + at)),
      );
    }
  }
  return chunks.join("");
}

function matchesOf(pattern: string, text: string): string {
  const { Tiktoken } = require("tiktoken") as typeof import("tiktoken");
  const bytes = Array.from({ length: 256 }, (_, byte) => Buffer.from([byte]).toString("base64"));
  const encoder = new Tiktoken(`! 0 ${bytes.join(" ")}`, {}, pattern);
  try {
    return Buffer.from(Uint8Array.from(encoder.encode_ordinary(text))).toString("utf8");
  } finally {
    encoder.free();
  }
}

function packClasses(classOf: Uint8Array): Pick<EncodingTables, "classPages" | "classes"> {
  const pages = new Map<string, number>();
  const classPages = new Uint8Array(CLASS_PAGES);
  const chunks: Uint8Array[] = [];
  for (let page = 0; page < CLASS_PAGES; page++) {
    const chunk = classOf.subarray(page << 8, (page + 1) << 8);
    const name = Buffer.from(chunk).toString("latin1");
    const known = pages.get(name) ?? pages.size;
    if (known === pages.size) {
      pages.set(name, known);
      chunks.push(chunk);
    }
    classPages[page] = known;
  }
  if (pages.size > 256) throw new Error(`${pages.size} pages of classes do not fit one byte`);
  return { classPages, classes: new Uint8Array(Buffer.concat(chunks)) };
}

main();
