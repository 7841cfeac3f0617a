/**
 * What a request says of the provider's prompt cache, added to a body that is encoded already.
 *
 *   anthropic   `cache_control` on the last block of `system`: the cache has all before it (tools, then system)
 *   openai      `prompt_cache_key`: requests with one key are routed to machines that have their prefix
 *
 * Sources: https://platform.claude.com/docs/en/build-with-claude/prompt-caching,
 * https://developers.openai.com/api/docs/guides/prompt-caching; the official SDKs of November 2026 send both.
 */

const SYSTEM = Buffer.from('"system":');
const CACHE_CONTROL = Buffer.from('"cache_control"');
const CACHE_KEY = Buffer.from('"prompt_cache_key"');
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ARRAY_START = 0x5b;
const ARRAY_END = 0x5d;

/**
 * Anthropic's request with a breakpoint at the end of its system instruction, in a copy; the same request if it has no system
 * instruction, or breakpoints already. `body` is JSON as the codec writes it, without white space. `ttl` is `5m` or `1h`.
 */
export function withCacheControl(body: Uint8Array, ttl: "5m" | "1h"): Uint8Array {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  // In a text its quotes would be escaped, and the codec writes `system` before any schema that could have a member of that name.
  const name = bytes.indexOf(SYSTEM);
  if (name < 0 || bytes.includes(CACHE_CONTROL)) return body;
  const at = name + SYSTEM.byteLength;
  const mark = `,"cache_control":{"type":"ephemeral"${ttl === "5m" ? "" : `,"ttl":"${ttl}"`}}}`;
  if (bytes[at] === QUOTE) {
    const end = stringEnd(bytes, at);
    return Buffer.concat([
      ...[bytes.subarray(0, at), Buffer.from('[{"type":"text","text":'), bytes.subarray(at, end)],
      ...[Buffer.from(`${mark}]`), bytes.subarray(end)],
    ]);
  }
  if (bytes[at] !== ARRAY_START || bytes[at + 1] === ARRAY_END) return body;
  let end = at + 1;
  while (bytes[end] !== ARRAY_END && end < bytes.length)
    end = bytes[end] === QUOTE ? stringEnd(bytes, end) : end + 1;
  return Buffer.concat([bytes.subarray(0, end - 1), Buffer.from(mark), bytes.subarray(end)]);
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
