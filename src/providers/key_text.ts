/**
 * Keys in what a provider says: taken out before anybody sees or stores it.
 *
 *   a key of the settings      by its own text or its beginning, in any case, at any place of what is said beside an answer; also
 *                              as a part of a URL or of JSON
 *   what looks like a key      in the provider's own words, and as a code: a code is of words and short numbers
 *   what is named a secret     in the provider's own words: `password=...`, `"token": "..."`, `https://user:...@host`
 */
import { PerigeeError } from "../errors.ts";
import type { Provider, ProviderSettings } from "./provider.ts";

/** Replaces a key. */
const HIDDEN = "[key]";
/** Keys of known vendors, whole or masked with asterisks, secret keys of AWS (40 characters), and anything long without a space. */
const KEY_LIKE =
  /\b(?:[spr]k|gsk|xai|key|AIza|hf|gh[a-z]|xox[a-z])[-_][^\s"',;]{4,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|(?<![A-Za-z0-9/+])(?=\D{0,39}\d)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])|[A-Za-z0-9_*-]{24,}/g;
const PRIVATE_KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/gs;
/** What a URL has before its host: a user and a password, or a token. */
const USER_OF_URL = /:\/\/([^\s/?#:@]*:)?[^\s/?#]+@/g;
/** What follows a name of a secret, to the end of its quotes or of the word; the name as in a header, a query, JSON, YAML or a variable. */
const NAMED_SECRET =
  /((?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|authorization|cookie|(?:api|access|private|secret)[-_ ]?key)["'\\]{0,3}\s{0,3}[=:]\s{0,3})(?:(\\?["'])(?:(?!\2).)*|(?:(?:Bearer|Basic)\s+)?[^\s"'&;]+)/gis;
/** As `Authorization` has it. "Basic authentication" does not match, because it has no digit. */
const CREDENTIAL = /\b(Bearer|Basic)\s+(?=\S*\d)[^\s"',;]{6,}/gi;
const KEY_START = /^(?:(?:sk|pk|gsk|xai)[-_.]|key-|aiza)/;
/** What a code is made of, in lower case: a word, or a number as of a status or a version. */
const CODE_PART = /^(?:[a-z]{0,40}|[a-z]{0,2}\d{1,6})$/;
/** Shorter ones are words of messages, too ("test", "none"). */
const KEY_CHARS_MIN = 8;
/** What a failure says in a provider's own words, and what an answer has beside what was answered. */
const TEXTS = ["message", "requestId", "servedTier", "reasoning"] as const;
const ANSWER_TEXTS = ["requestId", "servedTier", "model"] as const;
/** Of the error of a codec. */
const CAUSES_MAX = 8;
const SECRET_HEADER = /auth|key|token|secret|cookie/i;

/** The text without what looks like a key or a password. */
export function withoutKeys(text: string): string {
  return text
    .replace(PRIVATE_KEY, HIDDEN)
    .replace(USER_OF_URL, (_, user = "") => `://${user}${HIDDEN}@`)
    .replace(NAMED_SECRET, (_, name: string, quote = "") => `${name}${quote}${HIDDEN}`)
    .replace(CREDENTIAL, `$1 ${HIDDEN}`)
    .replace(KEY_LIKE, HIDDEN);
}

/** Whether a code (lower case) may be shown, because no key looks like it. */
export function isShownCode(code: string): boolean {
  return !KEY_START.test(code) && code.split(/[_.-]/).every((part) => CODE_PART.test(part));
}

/** The provider, with its keys taken out of what it says beside an answer: failures, refusals, names of what it left out. */
export function keepingKeys(provider: Provider, settings: ProviderSettings): Provider {
  const hidden = hidingOf(settings);
  if (hidden === undefined) return provider;
  const { endpoint } = provider;
  return {
    ...provider,
    ...(endpoint === undefined ? {} : { endpoint: (kind) => hidingAt(endpoint(kind), settings) }),
    head: (model) => {
      try {
        return provider.head(model);
      } catch (error) {
        const code = error instanceof PerigeeError ? error.code : "invalid_config";
        const cause = causeWithout(error, hidden, CAUSES_MAX);
        throw new PerigeeError(code, cause?.message ?? "unknown reason", { cause });
      }
    },
    encode: (...request) => {
      const encoded = provider.encode(...request);
      if (!encoded.ok) return { ...encoded, message: hidden(encoded.message) };
      return encoded.dropped.length === 0 ? encoded : { ...encoded, dropped: encoded.dropped.map(hidden) };
    },
    decode: (answer) => {
      const decoded = provider.decode(answer);
      return decoded.class === "success"
        ? textsWithout(decoded, ANSWER_TEXTS, hidden)
        : textsWithout(decoded, TEXTS, hidden);
    },
  };
}

function hidingAt(provider: Provider | undefined, settings: ProviderSettings): Provider | undefined {
  return provider === undefined ? undefined : keepingKeys(provider, settings);
}

/** Hot, once an answer: one without a key is not copied (0.4 us). */
function textsWithout<N extends string, T extends { readonly [name in N]?: string | undefined }>(
  decoded: T,
  names: readonly N[],
  hidden: (text: string) => string,
): T {
  const said = names.flatMap((name) => {
    const text = decoded[name];
    const shown = text === undefined ? undefined : hidden(text);
    return shown === text ? [] : [[name, shown]];
  });
  return said.length === 0 ? decoded : { ...decoded, ...Object.fromEntries(said) };
}

/** A copy, because an error has its words in its stack and in its causes, too. */
function causeWithout(error: unknown, hidden: (text: string) => string, causes: number): Error | undefined {
  if (!(error instanceof Error) || causes === 0) return undefined;
  const cause = causeWithout(error.cause, hidden, causes - 1);
  const shown = new Error(hidden(error.message), cause === undefined ? {} : { cause });
  shown.name = error.name;
  shown.stack = hidden(error.stack ?? "");
  return shown;
}

/** What takes the keys of settings out of a text; undefined without any. A text may end within a key, because it was cut. */
export function hidingOf({ key, headers = {} }: ProviderSettings): ((text: string) => string) | undefined {
  const secrets = Object.entries(headers)
    .filter(([name]) => SECRET_HEADER.test(name))
    .flatMap(([, value]) => value.split(/\s+/));
  const keys = [...(key === undefined ? [] : [key.trim()]), ...secrets].filter(
    (text) => text.length >= KEY_CHARS_MIN,
  );
  const forms = [...new Set(keys.flatMap(formsOf).map(inLowerCase))];
  return forms.length === 0 ? undefined : (text) => without(text, forms);
}

/** A key as it is, in a path, in a query and in JSON. */
function formsOf(key: string): readonly string[] {
  const query = String(new URLSearchParams({ key })).slice("key=".length);
  return [key, encodeURIComponent(Buffer.from(key).toString()), query, JSON.stringify(key).slice(1, -1)];
}

/** The text without the forms of keys (lower case), and without any beginning of them that is long enough. */
function without(text: string, forms: readonly string[]): string {
  const lower = inLowerCase(text);
  const starts = forms.map((form) => form.slice(0, KEY_CHARS_MIN));
  let shown = "";
  let rest = 0;
  for (;;) {
    const places = starts.map((start) => lower.indexOf(start, rest)).filter((at) => at >= 0);
    if (places.length === 0) return shown + text.slice(rest);
    const at = Math.min(...places);
    shown += text.slice(rest, at) + HIDDEN;
    rest = at + Math.max(...forms.map((form) => sameChars(lower, at, form)));
  }
}

/** How many characters of the text from `at` on are those of the form. */
function sameChars(text: string, at: number, form: string): number {
  let count = 0;
  while (count < form.length && text[at + count] === form[count]) count += 1;
  return count;
}

/** Of the same length, which `toLowerCase` alone does not keep. */
function inLowerCase(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}
