/**
 * What a request says of the provider's prompt cache, added to a body that is encoded already.
 *
 *   anthropic   `cache_control` on the last block of `system` and on a block of a turn: the cache has all before it
 *   openai      `prompt_cache_key`: requests with one key are routed to machines that have their prefix
 *
 * Sources: https://platform.claude.com/docs/en/build-with-claude/prompt-caching,
 * https://developers.openai.com/api/docs/guides/prompt-caching; the official SDKs of November 2026 send both.
 */

const SYSTEM = Buffer.from('"system":');
const MESSAGES = Buffer.from('"messages":[');
const CONTENT = Buffer.from('"content":');
const TEXT_BLOCK = Buffer.from('{"type":"text","text":');
const CACHE_CONTROL = Buffer.from('"cache_control"');
const CACHE_KEY = Buffer.from('"prompt_cache_key"');
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const ARRAY_START = 0x5b;
const ARRAY_END = 0x5d;

/** The most bytes that a mark adds to a request. */
export const MARK_BYTES_MAX = 256;

/** A text that becomes a block with a breakpoint, or the end of a block that gets one. */
interface MarkedText {
  /** Of a text that is not a block yet. */
  readonly textStart: number | undefined;
  readonly textEnd: number;
}

/**
 * Anthropic's request with breakpoints at the end of its system instruction and of the text number `parts` of its turns, in a copy;
 * the same request where it has neither, or breakpoints already. A request reads the longest prefix that has a breakpoint and was
 * written before, and pays each written token once. `body` is JSON as the codec writes it, without white space. `ttl`: `5m` or `1h`.
 */
export function withCacheControl(body: Uint8Array, parts: number, ttl: "5m" | "1h"): Uint8Array {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (bytes.includes(CACHE_CONTROL)) return body;
  const mark = Buffer.from(`,"cache_control":{"type":"ephemeral"${ttl === "5m" ? "" : `,"ttl":"${ttl}"`}}}`);
  const marked = [turnText(bytes, parts), systemText(bytes)].filter((text) => text !== undefined);
  if (marked.length === 0) return body;
  const pieces: Uint8Array[] = [];
  let from = 0;
  for (const { textStart, textEnd } of marked.sort((one, other) => one.textEnd - other.textEnd)) {
    if (textStart === undefined) {
      pieces.push(bytes.subarray(from, textEnd), mark);
      from = textEnd + 1; // the mark ends the block
      continue;
    }
    pieces.push(bytes.subarray(from, textStart), BLOCKS_START, bytes.subarray(textStart, textEnd));
    pieces.push(mark, BLOCKS_END);
    from = textEnd;
  }
  return Buffer.concat([...pieces, bytes.subarray(from)]);
}

const BLOCKS_START = Buffer.from('[{"type":"text","text":');
const BLOCKS_END = Buffer.from("]");

/** The last text of the system instruction. */
function systemText(bytes: Buffer): MarkedText | undefined {
  // In a text its quotes would be escaped, and the codec writes `system` before the messages: what has that name after their
  // beginning is a member of a call's arguments or of a schema.
  const name = bytes.indexOf(SYSTEM);
  if (name < 0 || name > bytes.indexOf(MESSAGES)) return undefined;
  const at = name + SYSTEM.byteLength;
  if (bytes[at] === QUOTE) return { textStart: at, textEnd: stringEnd(bytes, at) };
  const last = blockEnds(bytes, at).at(-1);
  return last === undefined ? undefined : { textStart: undefined, textEnd: last };
}

/** The text number `parts` of the turns, from 1. */
function turnText(bytes: Buffer, parts: number): MarkedText | undefined {
  const name = parts === 0 ? -1 : bytes.indexOf(MESSAGES);
  if (name < 0) return undefined;
  let passed = 0;
  for (let at = bytes.indexOf(CONTENT, name); at >= 0; ) {
    at += CONTENT.byteLength;
    if (bytes[at] === QUOTE) {
      const textEnd = stringEnd(bytes, at);
      passed += 1;
      if (passed === parts) return { textStart: at, textEnd };
      at = bytes.indexOf(CONTENT, textEnd);
      continue;
    }
    const ends = blockEnds(bytes, at);
    const textEnd = ends[parts - passed - 1];
    if (textEnd !== undefined) return { textStart: undefined, textEnd };
    passed += ends.length;
    at = bytes.indexOf(CONTENT, ends.at(-1) ?? at);
  }
  return undefined;
}

/** The ends of the texts in an array of text blocks. */
function blockEnds(bytes: Buffer, arrayStart: number): number[] {
  const ends: number[] = [];
  if (bytes[arrayStart] !== ARRAY_START || bytes[arrayStart + 1] === ARRAY_END) return ends;
  for (let at = arrayStart; bytes[at] === ARRAY_START || bytes[at] === COMMA; ) {
    const textStart = at + 1 + TEXT_BLOCK.byteLength;
    if (!bytes.subarray(at + 1, textStart).equals(TEXT_BLOCK)) return ends;
    const end = stringEnd(bytes, textStart);
    ends.push(end);
    at = end + 1;
  }
  return ends;
}

/** Whether a request to OpenAI names a cache key itself; true also where something else in it has that name. */
export function namesCacheKey(body: Uint8Array): boolean {
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes(CACHE_KEY);
}

/** OpenAI's request with a cache key, in a copy. `body` is a JSON object with members; `key` needs no escapes. */
export function withCacheKey(body: Uint8Array, key: string): Uint8Array {
  return Buffer.concat([Buffer.from(`{"prompt_cache_key":"${key}",`), body.subarray(1)]);
}

/** The index after the string that begins at `start`. */
function stringEnd(bytes: Buffer, start: number): number {
  let end = bytes.indexOf(QUOTE, start + 1);
  while (end >= 0) {
    let slashes = 0;
    while (bytes[end - 1 - slashes] === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return end + 1;
    end = bytes.indexOf(QUOTE, end + 1);
  }
  return bytes.length;
}
