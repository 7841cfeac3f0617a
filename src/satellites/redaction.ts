/**
 * Values of secrets out of what a satellite gives back: by value, wherever they stand.
 *
 * A value is found as it is, and as it is written in JSON, in a URL, and in Base64 where it stands alone.
 */
import type { Json } from "../work/json.ts";

const REDACTED = "[secret]";

/** Of the secrets that one attempt was given. */
export class Redaction {
  readonly #pattern: RegExp | undefined;

  constructor(values: Iterable<string>) {
    const written = [...new Set([...values].flatMap(spellings))].filter((text) => text !== "");
    // The longest first: one value may begin with another.
    written.sort((left, right) => right.length - left.length);
    this.#pattern = written.length === 0 ? undefined : new RegExp(written.map(escaped).join("|"), "g");
  }

  text(text: string): string {
    return this.#pattern === undefined ? text : text.replace(this.#pattern, REDACTED);
  }

  /** Texts and names of members. */
  json(value: Json): Json {
    if (this.#pattern === undefined || value === null) return value;
    if (typeof value === "string") return this.text(value);
    if (typeof value !== "object") return value;
    if (Array.isArray(value)) return (value as readonly Json[]).map((one) => this.json(one));
    const members = Object.entries(value) as [string, Json][];
    return Object.fromEntries(members.map(([name, member]) => [this.text(name), this.json(member)]));
  }
}

function spellings(value: string): string[] {
  const bytes = Buffer.from(value, "utf8");
  return [
    value,
    JSON.stringify(value).slice(1, -1),
    encodeURIComponent(bytes.toString("utf8")), // without halves of surrogate pairs, which have no bytes
    bytes.toString("base64"),
    bytes.toString("base64url"),
  ];
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
}
