/**
 * Where the prefix of a request may end that other requests share, so that a provider's prompt cache can have it.
 *
 *   head (model, tools, system instruction) -> end of each text of a turn -> ...
 *        where a cache needs no mark: also within a text, after each block of 2,048 UTF-16 units (about 512 tokens);
 *        blocks of 8,192 from 32,768 on, of 65,536 from 262,144 on
 *
 *   hash of an end = hash of the end before it and of what is between them: equal ends have equal beginnings
 *
 * Limits: an end has at least 1,024 tokens (the least that any provider caches) and 128 more than the end before it, of a text than
 * the text before it (OpenAI caches in steps of 128); at most 128 ends a request. Tokens of an end are estimated by its share of the characters.
 * Hot path: nothing for a request below 1,024 tokens; 1 ns a character for others, about 3 % of what counting its tokens takes.
 */
import { crc32 } from "node:zlib";

/** A prefix that requests share, or may share. */
export interface SharedPrefix {
  /** Of the model, the tools, the system instruction and the turns up to its end: 53 bits, never 0. */
  readonly hash: number;
  readonly tokens: number;
  /** Texts of turns that are whole in it, in their order; 0 for the system instruction only. */
  readonly parts: number;
  /** Its system instruction with tools, where that is long enough to be shared with others, and not all of it. */
  readonly head?: { readonly hash: number; readonly tokens: number } | undefined;
}

/** Where one request may end it. */
export interface PrefixEnd extends SharedPrefix {
  /** Whether it is that of the system instruction. */
  readonly isHead: boolean;
  /** Whether others probably share it where nobody is known to: at the end of the last text but one. */
  readonly isLikely: boolean;
}

/** The beginning of a request. */
export interface PrefixTexts {
  /** Hash of what is before its turns. */
  readonly headHash: number;
  readonly headTokens: number;
  /** Of all input. */
  readonly tokens: number;
  readonly turns: readonly { readonly role: string; readonly parts: readonly string[] }[];
  /** Whether a prefix may end within a text: not where it has to be marked. */
  readonly endsAnywhere: boolean;
}

/** Tokens from which a provider may cache a prefix. */
export const PREFIX_TOKENS_MIN = 1_024;
const END_TOKENS_MIN = 128;
const ENDS_MAX = 128;
/** Of fractions of tokens. */
const ROUNDING = 1e-6;
/** Not a UTF-16 unit: it ends a text. */
const TEXT_END = 0x10000;
const TURN_END = 0x10001;

/** The ends of a request, the shortest first. */
export function prefixEnds(texts: PrefixTexts): readonly PrefixEnd[] {
  const { headHash, headTokens, tokens, turns, endsAnywhere } = texts;
  const ends: PrefixEnd[] = [];
  let endTokens = headTokens >= PREFIX_TOKENS_MIN ? headTokens : 0;
  let wholeTokens = endTokens;
  if (endTokens > 0)
    ends.push({ hash: headHash, tokens: headTokens, parts: 0, isHead: true, isLikely: false });
  const unitsOfAll = turns.reduce((sum, turn) => sum + lengthOf(turn.parts), 0);
  const tokensPerUnit = unitsOfAll === 0 ? 0 : (tokens - headTokens) / unitsOfAll;
  const likelyParts = turns.reduce((sum, turn) => sum + turn.parts.length, 0) - 1;
  const hash = new PrefixHash(headHash);
  let units = 0;
  let parts = 0;
  const end = (isWhole: boolean): void => {
    const nowTokens = Math.floor(headTokens + units * tokensPerUnit + ROUNDING);
    if (nowTokens < PREFIX_TOKENS_MIN || (!isWhole && nowTokens < endTokens + END_TOKENS_MIN)) return;
    if (isWhole && nowTokens < wholeTokens + END_TOKENS_MIN) return;
    endTokens = nowTokens;
    if (isWhole) wholeTokens = nowTokens;
    const isLikely = isWhole && parts === likelyParts;
    ends.push({ hash: hash.value, tokens: nowTokens, parts, isHead: false, isLikely });
  };
  for (const { role, parts: ofTurn } of turns) {
    hash.add(role, 0, role.length);
    for (const text of ofTurn) {
      for (let from = 0; from < text.length; ) {
        const to = endsAnywhere ? Math.min(text.length, from + blockAt(units)) : text.length;
        if (!endsAnywhere && parts === likelyParts) return ends; // the last text is its own
        hash.add(text, from, to);
        units += to - from;
        from = to;
        if (ends.length >= ENDS_MAX) return ends;
        if (to < text.length) end(false);
      }
      hash.mark(TEXT_END);
      parts += 1;
      end(true);
    }
    hash.mark(TURN_END);
  }
  return ends;
}

/** 53 bits of two FNV-1a runs over UTF-16 units; 0 for no texts, never 0 for some. Learnt figures are kept under it. */
export function hashOfTexts(texts: readonly string[]): number {
  if (texts.length === 0) return 0;
  const hash = new PrefixHash(undefined);
  for (const text of texts) {
    hash.addUnits(text);
    hash.mark(TEXT_END);
  }
  return hash.value;
}

/** Of several hashes, in their order. */
export function hashOfHashes(first: number, second: number): number {
  const hash = new PrefixHash(first);
  hash.mark(Math.floor(second / 2 ** 32));
  hash.mark(second | 0);
  return hash.value;
}

/** Units up to the next border of a block. */
function blockAt(units: number): number {
  const block = units < 32_768 ? 2_048 : units < 262_144 ? 8_192 : 65_536;
  return block - (units % block);
}

function lengthOf(texts: readonly string[]): number {
  let units = 0;
  for (const text of texts) units += text.length;
  return units;
}

class PrefixHash {
  #high: number;
  #low: number;

  /** Goes on from a hash. */
  constructor(from: number | undefined) {
    this.#high = from === undefined ? 0x811c9dc5 : Math.floor(from / 2 ** 32) << 11;
    this.#low = from === undefined ? 0x9747b28c : from | 0;
  }

  /** By CRC-32: 1 ns a character; a loop over the characters took 5. */
  add(text: string, from: number, to: number): void {
    this.mark(crc32(from === 0 && to === text.length ? text : text.slice(from, to)));
    this.mark(to - from);
  }

  addUnits(text: string): void {
    let high = this.#high;
    let low = this.#low;
    for (let index = 0; index < text.length; index += 1) {
      const unit = text.charCodeAt(index);
      high = Math.imul(high ^ unit, 0x01000193);
      low = Math.imul(low ^ unit, 0x85ebca6b);
    }
    this.#high = high;
    this.#low = low;
  }

  mark(word: number): void {
    this.#high = Math.imul(this.#high ^ word, 0x01000193);
    this.#low = Math.imul(this.#low ^ (this.#low >>> 15) ^ word, 0x85ebca6b);
  }

  get value(): number {
    return (this.#high >>> 11) * 2 ** 32 + (this.#low >>> 0) || 1;
  }
}
