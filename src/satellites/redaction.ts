/**
 * Redaction: takes the values of secrets out of what satellites say, by value.
 *
 *   value -> its forms -> `[redacted]`
 *   forms: as it is; JSON-escaped and URL-encoded, three times at most; base64 of all that, at each of its three alignments
 *
 * Base64 shows the same bytes in three ways, depending on how many stand before them: `Basic` credentials begin with a
 * user's name. So the characters that a value alone decides are looked for at each alignment.
 *
 * Limits: values below 4 characters are left in place, since they are part of any text; what was encrypted, hashed,
 * compressed or cut into pieces is not found.
 */
import type { Json } from "../work/json.ts";

/** Shorter ones are not taken out. */
const REDACTED_CHARACTERS_MIN = 4;

/** What stands in the place of a secret. */
const REDACTED = "[redacted]";

/** Lines of a value that stand for it when a text holds one of them alone, as lines of a private key. */
const LINE_CHARACTERS_MIN = 12;

/** Encodings looked for one upon the other, such as JSON in a URL in JSON. */
const DEPTH_MAX = 3;
/** Of longer values, such as keys in PEM, one encoding alone. */
const DEEP_CHARACTERS_MAX = 512;

export interface Redactor {
  /** The text without the values. */
  redact(text: string): string;
  /** The same in all texts and names of members. */
  redactJson(value: Json): Json;
}

/** Reads the values once and keeps their forms. */
export function createRedactor(values: Iterable<string>): Redactor {
  const found = [...values].flatMap((value) => [value, ...linesOf(value)]);
  const forms = [
    ...new Set(found.filter((value) => value.length >= REDACTED_CHARACTERS_MIN).flatMap(formsOf)),
  ];
  const redact = (text: string): string => without(text, forms);
  return { redact, redactJson: (value) => mapTexts(value, redact) };
}

function linesOf(value: string): string[] {
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  return lines.length < 2 ? [] : lines.filter((line) => line.length >= LINE_CHARACTERS_MIN);
}

/** What encodings make of a value, up to three of them one upon the other. */
function formsOf(value: string): string[] {
  const depth = value.length > DEEP_CHARACTERS_MAX ? 1 : DEPTH_MAX;
  const texts = closure([value], depth);
  const encoded = new Set([...texts].flatMap((text) => base64Forms(Buffer.from(text, "utf8"))));
  return [...texts, ...closure(encoded, 1)].filter((form) => form.length >= REDACTED_CHARACTERS_MIN);
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

/** As it stands inside a string of JSON. */
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

/** What base64 makes of the bytes wherever they stand, in both alphabets. */
function base64Forms(bytes: Buffer): string[] {
  const cores = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  });
  return cores.flatMap((core) => [core, core.replaceAll("+", "-").replaceAll("/", "_")]);
}

/** Forms may overlap each other: what any of them covers goes. */
function without(text: string, forms: readonly string[]): string {
  const covered: (readonly [start: number, end: number])[] = [];
  for (const form of forms)
    for (let start = text.indexOf(form); start >= 0; start = text.indexOf(form, start + 1))
      covered.push([start, start + form.length]);
  if (covered.length === 0) return text;
  covered.sort((a, b) => a[0] - b[0]);
  let result = "";
  let doneTo = 0;
  for (const [start, end] of covered) {
    if (start >= doneTo) result += text.slice(doneTo, start) + REDACTED;
    doneTo = Math.max(doneTo, end);
  }
  return result + text.slice(doneTo);
}

function mapTexts(value: Json, map: (text: string) => string): Json {
  if (typeof value === "string") return map(value);
  if (Array.isArray(value)) return value.map((element: Json) => mapTexts(element, map));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [map(name), mapTexts(member, map)]),
  );
}
