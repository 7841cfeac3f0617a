/**
 * Keys in what a provider says: taken out before anybody sees or stores it.
 *
 *   a key of the settings      by its own text, in any case, at any place of a failure's message
 *   what looks like a key      in the provider's own words, and as a code: a code is of words and short numbers
 */
import type { Decoded, Provider, ProviderSettings } from "./provider.ts";

/** Replaces a key. */
const HIDDEN = "[key]";
/** Keys of known vendors, whole or masked with asterisks, and anything long without a space. */
const KEY_LIKE = /\b(?:sk|pk|gsk|xai|key|AIza)[-_][^\s"',;]{4,}|[A-Za-z0-9_*-]{24,}/g;
const KEY_START = /^(?:(?:sk|pk|gsk|xai)[-_.]|key-|aiza)/;
/** What a code is made of, in lower case: a word, or a number as of a status or a version. */
const CODE_PART = /^(?:[a-z]{0,40}|[a-z]{0,2}\d{1,6})$/;
/** Shorter ones are words of messages, too ("test", "none"). */
const KEY_CHARS_MIN = 8;
const SECRET_HEADER = /auth|key|token|secret|cookie/i;

/** The text without what looks like a key. */
export function withoutKeys(text: string): string {
  return text.replace(KEY_LIKE, HIDDEN);
}

/** Whether a code (lower case) may be shown, because no key looks like it. */
export function isShownCode(code: string): boolean {
  return !KEY_START.test(code) && code.split(/[_.-]/).every((part) => CODE_PART.test(part));
}

/** The provider, with its keys taken out of the messages of failures. */
export function keepingKeys(provider: Provider, { key, headers = {} }: ProviderSettings): Provider {
  const secrets = Object.entries(headers)
    .filter(([name]) => SECRET_HEADER.test(name))
    .flatMap(([, value]) => value.split(/\s+/));
  const keys = [...(key === undefined ? [] : [key.trim()]), ...secrets]
    .filter((text) => text.length >= KEY_CHARS_MIN)
    .map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (keys.length === 0) return provider;
  const given = new RegExp(keys.join("|"), "gi");
  const decode = (decoded: Decoded): Decoded =>
    decoded.class === "success" ? decoded : { ...decoded, message: decoded.message.replace(given, HIDDEN) };
  return { ...provider, decode: (answer) => decode(provider.decode(answer)) };
}
