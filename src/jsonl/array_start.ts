/**
 * Whether a text that arrives piece by piece is one array of requests, or lines.
 *
 *   its first character is not `[`                           -> lines
 *   `[`, and then neither `{` nor `]`                        -> lines
 *   `[`, and the line ends before the array does             -> array
 *   `[`, the array ends on that line, nothing follows it     -> array
 *                                   , something follows it   -> lines: the first of them is an array, and only it fails
 *
 * Blanks, line ends and a byte order mark do not count. Brackets are counted outside of strings and nothing else is
 * checked: the reader reports errors inside.
 *
 * Limit: 10 MiB of the first line, after which it is an array, because no line may be longer.
 */
import { LINE_BYTES_MAX } from "./read.ts";

const LF = 0x0a;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING = new Set([0x5b, 0x7b]);
const CLOSING = new Set([0x5d, 0x7d]);
const [ARRAY_OPEN, ARRAY_CLOSE, OBJECT_OPEN] = [0x5b, 0x5d, 0x7b];
/** Space, tab, CR, LF, and the three bytes of the mark. */
const BLANK = new Set([0x20, 0x09, 0x0d, LF, 0xef, 0xbb, 0xbf]);

/** Fed with the text from its beginning until it knows. */
export class ArrayStart {
  /** What is searched next: the first character, the first one inside, the end of the array, anything after it. */
  #phase: "first" | "inside" | "end" | "behind" = "first";
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #hasLineEnd = false;
  #lineBytes = 0;

  /** Undefined while it may be either. */
  take(bytes: Uint8Array): "array" | "lines" | undefined {
    for (const byte of bytes) {
      const kind = this.#phase === "end" ? this.#seekEnd(byte) : this.#look(byte);
      if (kind !== undefined) return kind;
    }
    return undefined;
  }

  /** The text has ended. */
  end(): "array" | "lines" {
    return this.#phase === "end" || this.#phase === "behind" ? "array" : "lines";
  }

  /** At the next character that is not blank. */
  #look(byte: number): "array" | "lines" | undefined {
    if (BLANK.has(byte)) {
      if (byte === LF && this.#phase === "inside") this.#hasLineEnd = true;
      return undefined;
    }
    if (this.#phase === "first") {
      if (byte !== ARRAY_OPEN) return "lines";
      this.#phase = "inside";
      this.#depth = 1;
      return undefined;
    }
    if (this.#phase === "behind" || (byte !== OBJECT_OPEN && byte !== ARRAY_CLOSE)) return "lines";
    if (this.#hasLineEnd) return "array";
    this.#phase = "end";
    return this.#seekEnd(byte);
  }

  #seekEnd(byte: number): "array" | undefined {
    this.#lineBytes += 1;
    if (byte === LF || this.#lineBytes > LINE_BYTES_MAX) return "array";
    if (this.#isInString) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === BACKSLASH) this.#isEscaped = true;
      else if (byte === QUOTE) this.#isInString = false;
    } else if (byte === QUOTE) this.#isInString = true;
    else if (OPENING.has(byte)) this.#depth += 1;
    else if (CLOSING.has(byte)) this.#depth -= 1;
    if (this.#depth === 0) this.#phase = "behind";
    return undefined;
  }
}
