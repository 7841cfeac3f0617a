/**
 * Counts the tokens of one piece: byte pair encoding without merging.
 *
 * Merging takes the pair of lowest rank again and again. Its result is the only sequence of tokens in which every two
 * neighbours are what merging would make of only those two (B. Neyman and A. van Antwerpen, "So many tokens, so little
 * time", github.blog, 2024), so it can be found from left to right: take the longest token that fits its left neighbour,
 * step back where no token fits, and never try a position twice. The trie finds the longest token, `prefixes` the next
 * shorter one. The build checks what this needs: every token is what merging makes of its own bytes.
 *
 * Limits: time is linear in the length of the piece (a position is left for good when it failed; the tries at one
 * position are bounded by the longest token), memory is a bit per byte and 4 bytes per token of the longest piece.
 *
 * Hot path where words are new or long (Chinese, Japanese, Thai, code): 10 million tokens/s, `bench/parts/count.ts`.
 */
import { type EncodingTables, hashOfPair, TRIE_ROOT, tagOfHash } from "./ranks.ts";

const USED = 1 << 8;
const IS_TOKEN = 1 << 9;
const BASE_SHIFT = 10;
const TOKEN_MASK = (1 << 18) - 1;
const TAG_MASK = ~TOKEN_MASK & 0x7fffffff;
/** Room kept between pieces; a longer piece gets its own, which is freed afterwards. */
const STACK_TOKENS = 4096;
/** Pairs of tokens whose fit is remembered; text of one language uses few. */
const PAIRS_BITS = 14;

/** Counts pieces. Not for use by two callers at once. */
export class PieceMerger {
  /** Tokens tried since this was made: what `count` costs, for tests that bound its work. */
  steps = 0;
  readonly #tables: EncodingTables;
  readonly #pairShift: number;
  /** Tokens chosen so far. */
  #chosen = new Int32Array(STACK_TOKENS);
  /** One bit per position of the piece: no encoding leads on from here. */
  #dead = new Int32Array(STACK_TOKENS >> 5);

  /** Two words a slot: the left token, then `right + 1 << 1 | fits`. */
  readonly #pairs = new Int32Array(2 << PAIRS_BITS);

  constructor(tables: EncodingTables) {
    this.#tables = tables;
    this.#pairShift = 32 - Math.log2(tables.pairSlots.length);
  }

  /** Tokens of `bytes[start..end)`, one piece, at least one byte long. */
  count(bytes: Uint8Array, start: number, end: number): number {
    const first = this.#longest(bytes, start, end);
    const lengths = this.#tables.lengthsBytes;
    let position = start + (lengths[first] as number);
    if (position === end) return 1;
    // Two tokens are the commonest answer for a word that is not one.
    const second = this.#longest(bytes, position, end);
    position += lengths[second] as number;
    if (position === end && this.#isPair(first, second)) return 2;
    return this.#countFrom(bytes, start, end, first);
  }

  #countFrom(bytes: Uint8Array, start: number, end: number, first: number): number {
    const { lengthsBytes, prefixes } = this.#tables;
    this.#makeRoom(end - start);
    let chosen = this.#chosen;
    const dead = this.#dead;
    let hasDead = false;
    let position = start;
    let count = 0;
    let last = -1;
    let token = first;
    for (;;) {
      this.steps++;
      const next = position + (lengthsBytes[token] as number);
      const offset = next - start;
      const isOpen = ((dead[offset >> 5] as number) & (1 << (offset & 31))) === 0;
      if (isOpen && (last < 0 || this.#isPair(last, token))) {
        if (count === chosen.length) chosen = this.#grow();
        chosen[count++] = token;
        if (next === end) break;
        position = next;
        last = token;
        token = this.#longest(bytes, position, end);
        continue;
      }
      token = prefixes[token] as number;
      if (token >= 0) continue;
      hasDead = true;
      const failed = position - start;
      dead[failed >> 5] = (dead[failed >> 5] as number) | (1 << (failed & 31));
      token = last;
      position -= lengthsBytes[last] as number;
      count--;
      last = count > 0 ? (chosen[count - 1] as number) : -1;
    }
    this.#giveBack(hasDead);
    return count;
  }

  /** The longest token that `bytes[start..end)` begins with. */
  #longest(bytes: Uint8Array, start: number, end: number): number {
    const cells = this.#tables.trieCells;
    let cell = cells[TRIE_ROOT] as number;
    let found = 0;
    for (let index = start; index < end; index++) {
      const byte = bytes[index] as number;
      const slot = (cell >>> BASE_SHIFT) ^ byte;
      cell = cells[slot] as number;
      if ((cell & (USED | 0xff)) !== (USED | byte)) break;
      if ((cell & IS_TOKEN) !== 0) found = slot;
    }
    return this.#tables.trieTokens[found] as number;
  }

  /** `#isLastingPair`, remembered for the latest pairs. */
  #isPair(left: number, right: number): boolean {
    const memo = this.#pairs;
    const slot = (hashOfPair(left, right) >>> (32 - PAIRS_BITS)) << 1;
    const known = memo[slot + 1] as number;
    if (memo[slot] === left && known >>> 1 === right + 1) return (known & 1) === 1;
    const isPair = this.#isLastingPair(left, right);
    memo[slot] = left;
    memo[slot + 1] = ((right + 1) << 1) | (isPair ? 1 : 0);
    return isPair;
  }

  /** Whether merging leaves these two neighbours as they are: undoes their merges and looks for an earlier one. */
  #isLastingPair(leftToken: number, rightToken: number): boolean {
    const { lefts, rights } = this.#tables;
    let left = leftToken;
    let right = rightToken;
    let limit = 0x7fffffff;
    for (;;) {
      const merged = this.#merged(left, right);
      if (merged >= 0 && merged < limit) return false;
      if (left > right) {
        limit = left;
        left = rights[left] as number;
        if (left !== limit) continue;
        limit = right + 1;
        right = lefts[right] as number;
        if (right + 1 === limit) return true;
      } else {
        limit = right + 1;
        right = lefts[right] as number;
        if (right + 1 !== limit) continue;
        limit = left;
        left = rights[left] as number;
        if (left === limit) return true;
      }
    }
  }

  /** The token that the two merge into, or -1. */
  #merged(left: number, right: number): number {
    const { pairSlots, lefts, rights } = this.#tables;
    const hash = hashOfPair(left, right);
    const tag = tagOfHash(hash);
    const mask = pairSlots.length - 1;
    for (let slot = hash >>> this.#pairShift; ; slot = (slot + 1) & mask) {
      const entry = pairSlots[slot] as number;
      if (entry === 0) return -1;
      if ((entry & TAG_MASK) !== tag) continue;
      const token = (entry & TOKEN_MASK) - 1;
      if (lefts[token] === left && rights[token] === right) return token;
    }
  }

  #makeRoom(lengthBytes: number): void {
    const words = (lengthBytes >> 5) + 1;
    if (words > this.#dead.length) this.#dead = new Int32Array(words);
  }

  #grow(): Int32Array<ArrayBuffer> {
    const grown = new Int32Array(this.#chosen.length * 2);
    grown.set(this.#chosen);
    this.#chosen = grown;
    return grown;
  }

  #giveBack(hasDead: boolean): void {
    if (this.#chosen.length > STACK_TOKENS) this.#chosen = new Int32Array(STACK_TOKENS);
    if (this.#dead.length > STACK_TOKENS >> 5) this.#dead = new Int32Array(STACK_TOKENS >> 5);
    else if (hasDead) this.#dead.fill(0);
  }
}
