/**
 * Redaction: takes the values of secrets out of what satellites say, by value.
 *
 *   value -> its forms -> `[redacted]`
 *   forms: as it is; JSON-escaped and URL-encoded, three times at most; base64 of all that, at each of its three alignments
 *
 * Base64 shows the same bytes in three ways, depending on how many are before them: `Basic` credentials begin with a
 * user's name. So the characters that depend only on a value are searched at each alignment.
 *
 * Limits: values below 4 characters are left in place, since they are part of any text; what was encrypted, hashed,
 * compressed or cut into pieces is not found. Values and texts are both of users' choosing: of more than 1,024 characters of values
 * only one encoding is searched, and what takes too many comparisons is taken out whole.
 */
import type { Json } from "../../work/json.ts";

/** Shorter ones are not taken out. */
const REDACTED_CHARACTERS_MIN = 4;

/** What replaces a secret. */
const REDACTED = "[redacted]";

/** Lines of a value that reveal it even if a text holds only one of them, as lines of a private key. */
const LINE_CHARACTERS_MIN = 12;

/** Encodings looked for one upon the other, such as JSON in a URL in JSON. */
const DEPTH_MAX = 3;
/** Of longer values, such as keys in PEM, only one encoding; of many values as well. */
const DEEP_CHARACTERS_MAX = 512;
const DEEP_IN_ALL_MAX = 1_024;
/** Of more, no encoding of base64. */
const ENCODED_BASE64_MAX = 8_192;

/** Of a text or a value of JSON; they take some 20 ns each. */
const COMPARISONS_MAX = 8_000_000;
/** What is compared of a form before the whole of it, and how much of the whole is worth a comparison. */
const HEAD_CHARACTERS = 16;
const CHARACTERS_A_COMPARISON = 64;

export interface Redactor {
  /** The text without the values. */
  redact(text: string): string;
  /** The same in all texts and names of members. */
  redactJson(value: Json): Json;
}

const NOTHING_SECRET: Redactor = { redact: (text) => text, redactJson: (value) => value };

/** Reads the values once and keeps their forms. */
export function createRedactor(values: Iterable<string>): Redactor {
  const found = [...new Set([...values].flatMap((value) => [value, ...linesOf(value)]))].filter(isLong);
  if (found.length === 0) return NOTHING_SECRET; // most executions: the forms would take 64 KiB for each
  const characters = found.reduce((sum, { length }) => sum + length, 0);
  const forms = new Forms(found.flatMap((value) => formsOf(value, characters)));
  return {
    redact: (text) => new Redaction(forms).text(text),
    redactJson: (value) => {
      const redaction = new Redaction(forms);
      return mapTexts(value, (text) => redaction.text(text));
    },
  };
}

function isLong({ length }: string): boolean {
  return length >= REDACTED_CHARACTERS_MIN;
}

interface Form {
  readonly form: string;
  readonly head: string;
}

/** Forms by their first four characters, the longest first. */
class Forms {
  readonly #byStart = new Map<string, Form[]>();
  /** Which pairs of hashes of the first characters there are, so that most places of a text cost a look. */
  readonly #isStart = new Uint8Array(1 << 16);

  constructor(forms: Iterable<string>) {
    for (const form of new Set(forms)) {
      const start = form.slice(0, REDACTED_CHARACTERS_MIN);
      const others = this.#byStart.get(start);
      const one = { form, head: form.slice(0, HEAD_CHARACTERS) };
      if (others === undefined) this.#byStart.set(start, [one]);
      else others.push(one);
      this.#isStart[startHash(form, 0)] = 1;
    }
    for (const others of this.#byStart.values())
      others.sort((one, other) => other.form.length - one.form.length);
  }

  /** Those that may begin at a place. */
  at(text: string, place: number): readonly Form[] {
    if (this.#isStart[startHash(text, place)] === 0) return NONE;
    return this.#byStart.get(text.slice(place, place + REDACTED_CHARACTERS_MIN)) ?? NONE;
  }
}

const NONE: readonly Form[] = [];

/** Of four characters. */
function startHash(text: string, place: number): number {
  const low = text.charCodeAt(place) * 31 + text.charCodeAt(place + 1);
  const high = text.charCodeAt(place + 2) * 31 + text.charCodeAt(place + 3);
  return (low * 131 + high) & 0xffff;
}

/** One use of a redactor. Forms may overlap each other: what any of them covers is taken out. */
class Redaction {
  readonly #forms: Forms;
  #comparisons = 0;

  constructor(forms: Forms) {
    this.#forms = forms;
  }

  text(text: string): string {
    let result = "";
    let doneTo = 0;
    for (let place = 0; place <= text.length - REDACTED_CHARACTERS_MIN; place += 1) {
      const length = this.#lengthAt(text, place);
      if (this.#comparisons > COMPARISONS_MAX) return REDACTED;
      if (length === 0) continue;
      if (place >= doneTo) result += text.slice(doneTo, place) + REDACTED;
      doneTo = Math.max(doneTo, place + length);
    }
    return result + text.slice(doneTo);
  }

  /** Of the longest form that begins there; 0 without one. */
  #lengthAt(text: string, place: number): number {
    for (const { form, head } of this.#forms.at(text, place)) {
      this.#comparisons += 1;
      if (!text.startsWith(head, place)) continue;
      this.#comparisons += form.length / CHARACTERS_A_COMPARISON;
      if (this.#comparisons > COMPARISONS_MAX) return 0;
      // Slices are compared as blocks of memory, which `startsWith` does sign by sign.
      if (text.slice(place, place + form.length) === form) return form.length;
    }
    return 0;
  }
}

function linesOf(value: string): string[] {
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  return lines.length < 2 ? [] : lines.filter((line) => line.length >= LINE_CHARACTERS_MIN);
}

/** What encodings make of a value, up to three of them one upon the other; `characters` are those of all values. */
function formsOf(value: string, characters: number): string[] {
  const isDeep = value.length <= DEEP_CHARACTERS_MAX && characters <= DEEP_IN_ALL_MAX;
  const depth = isDeep ? DEPTH_MAX : 1;
  const texts = closure([value], depth);
  const encoded = new Set([...texts].flatMap((text) => base64Forms(Buffer.from(text, "utf8"))));
  const encodedOnce = characters > ENCODED_BASE64_MAX ? encoded : closure(encoded, 1);
  return [...texts, ...encodedOnce].filter(isLong);
}

function closure(values: Iterable<string>, depth: number): Set<string> {
  const all = new Set(values);
  let latest = [...all];
  for (let level = 0; level < depth; level += 1) {
    latest = latest
      .flatMap((text) => ENCODERS.map((encode) => encode(text)))
      .filter((form) => !all.has(form));
    for (const form of latest) all.add(form);
  }
  return all;
}

const ENCODERS: readonly ((text: string) => string)[] = [
  jsonForm,
  (text) => asciiJson(jsonForm(text)),
  (text) => jsonForm(text).replaceAll("/", "\\/"),
  (text) => encodeURI(wellFormed(text)),
  (text) => encodeURIComponent(wellFormed(text)),
  (text) => withSmallEscapes(encodeURIComponent(wellFormed(text))),
  formEncoded,
];

function wellFormed(text: string): string {
  return Buffer.from(text, "utf8").toString("utf8");
}

/** As it is written inside a string of JSON. */
function jsonForm(value: string): string {
  return JSON.stringify(value).slice(1, -1);
}

/** With everything beyond ASCII escaped, as many languages write JSON. */
function asciiJson(json: string): string {
  return json.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** As `application/x-www-form-urlencoded`. */
function formEncoded(value: string): string {
  return new URLSearchParams([["", value]]).toString().slice(1);
}

function withSmallEscapes(text: string): string {
  return text.replace(/%[0-9A-F]{2}/g, (escaped) => escaped.toLowerCase());
}

/** What base64 makes of the bytes at any place, in both alphabets. */
function base64Forms(bytes: Buffer): string[] {
  const cores = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  });
  return cores.flatMap((core) => [core, core.replaceAll("+", "-").replaceAll("/", "_")]);
}

function mapTexts(value: Json, map: (text: string) => string): Json {
  if (typeof value === "string") return map(value);
  if (Array.isArray(value)) return value.map((element: Json) => mapTexts(element, map));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [map(name), mapTexts(member, map)]),
  );
}
