/**
 * Server-sent events, read as their bytes arrive.
 *
 * Only `data` is read: every provider's events name their type in it, too. Lines end with LF, CRLF or CR.
 * Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
 *
 * Limit: 8 MiB of an event that is not whole; beyond it `isTooLong`, and the rest is not read.
 */
import { StringDecoder } from "node:string_decoder";

const EVENT_CHARS_MAX = 8 * 1024 * 1024;

/** One for a stream. */
export class SseReader {
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";
  #data: string[] = [];
  #dataChars = 0;
  #hasBegun = false;
  isTooLong = false;

  /** The data of the events that the bytes end. */
  read(bytes: Uint8Array): readonly string[] {
    if (this.isTooLong) return [];
    const text =
      this.#rest +
      this.#begun(this.#decoder.write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)));
    const events: string[] = [];
    let start = 0;
    for (let at = nextEnd(text, 0); at >= 0; at = nextEnd(text, start)) {
      const isLast = at === text.length - 1;
      if (text[at] === "\r" && isLast) break; // its line feed may follow
      this.#line(text.slice(start, at), events);
      start = at + (text[at] === "\r" && text[at + 1] === "\n" ? 2 : 1);
    }
    this.#rest = text.slice(start);
    this.isTooLong = this.#rest.length + this.#dataChars > EVENT_CHARS_MAX;
    return events;
  }

  /** Without the byte order mark that may precede the first line. */
  #begun(text: string): string {
    if (this.#hasBegun || text === "") return text;
    this.#hasBegun = true;
    return text.startsWith("\uFEFF") ? text.slice(1) : text;
  }

  #line(line: string, events: string[]): void {
    if (line === "") {
      if (this.#data.length > 0) events.push(this.#data.join("\n"));
      this.#data = [];
      this.#dataChars = 0;
    } else if (line === "data" || line.startsWith("data:")) {
      const data = line.slice(line[5] === " " ? 6 : 5);
      this.#data.push(data);
      this.#dataChars += data.length;
    }
  }
}

function nextEnd(text: string, from: number): number {
  const feed = text.indexOf("\n", from);
  const carriage = text.indexOf("\r", from);
  if (feed < 0 || carriage < 0) return Math.max(feed, carriage);
  return Math.min(feed, carriage);
}
