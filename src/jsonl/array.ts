/**
 * One huge JSON array as lines: a `.json` file is read element by element, in bounded memory. The only import of stream-json.
 *
 * Elements are put together again from the parser's tokens: numbers keep their digits, repeated members stay, strings
 * are escaped again. Each element is then handled like a line, and its faults concern only itself; what breaks the array (other
 * text around it, a syntax error, invalid UTF-8) throws, because nothing after it can be trusted.
 *
 * Limits: element 10 MiB of text and 64 levels, beyond which only it is refused; 100,000 levels refuse the file.
 * Speed: about 35 MB/s, nearly all of it the parser's tokens (`bench/parts/read.ts`); lines are split 70 times as fast.
 */
import { finished } from "node:stream/promises";
import type parser from "stream-json/parser.js";
import { messageOf, PerigeeError } from "../errors.ts";
import { LINE_BYTES_MAX } from "./read.ts";
import { DEPTH_MAX } from "./record.ts";

/** An element of the array, in order. */
export type ArrayElement =
  | {
      readonly kind: "line";
      /** One JSON text on one line, without a newline. */
      readonly text: string;
    }
  | {
      readonly kind: "refused";
      /** Number of the element, from 1: its line number. */
      readonly line: number;
      readonly code: "line_too_long" | "too_deep";
    };

export interface ArrayOptions {
  /** UTF-16 units of one element's text at most. Default 10 Mi. */
  readonly elementCharsMax?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Levels at which the parser's own stack would begin to count. */
const NESTING_MAX = 100_000;
/** Bytes passed to the parser at once; the elements in them are passed on before the next. */
const SLICE_BYTES = 64 * 1024;
/** Pieces of an element that are kept apart at most: small strings cost more than their characters. */
const PIECES_MAX = 4_096;

/**
 * Yields the elements of the one array that `chunks` hold: those that a chunk ends, as soon as it has arrived, at most
 * 64 KiB of text and one element at a time. A byte order mark at the start is skipped. Throws `invalid_array`, saying
 * what was found and near which element; errors of `chunks` pass through.
 */
export async function* arrayLines(
  chunks: AsyncIterable<Uint8Array>,
  options: ArrayOptions = {},
): AsyncGenerator<readonly ArrayElement[]> {
  const { default: parser } = await import("stream-json/parser.js"); // few inputs are an array
  const stream = parser.asStream({ packValues: false });
  const reader = new ArrayReader(stream, options.elementCharsMax ?? LINE_BYTES_MAX);
  try {
    for await (const chunk of chunks) {
      for (let at = 0; at < chunk.length; at += SLICE_BYTES) {
        options.signal?.throwIfAborted();
        await reader.take(chunk.subarray(at, at + SLICE_BYTES));
        const elements = reader.elements();
        if (elements.length > 0) yield elements;
      }
    }
    await reader.end();
    const elements = reader.elements();
    if (elements.length > 0) yield elements;
  } finally {
    reader.close();
  }
}

/** Drives the parser's stream, whose tokens arrive while it is written to. */
class ArrayReader {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  readonly #stream: ReturnType<typeof parser.asStream>;
  readonly #builder: ElementBuilder;
  readonly #ended: Promise<void>;
  #bytes = 0;
  #sliceStart = 0;

  constructor(stream: ReturnType<typeof parser.asStream>, elementCharsMax: number) {
    this.#stream = stream;
    this.#builder = new ElementBuilder(elementCharsMax);
    this.#ended = finished(this.#stream);
    this.#ended.catch(() => undefined); // awaited in `end`; before that `write` meets the same failure
    this.#stream.on("data", (token: parser.Token) => {
      const fault = this.#builder.take(token);
      if (fault !== undefined) this.#stream.destroy(new Error(fault));
    });
  }

  async take(bytes: Uint8Array): Promise<void> {
    this.#sliceStart = this.#bytes;
    this.#bytes += bytes.length;
    await this.#checked(() => this.#write(this.#decoder.decode(bytes, { stream: true })));
  }

  async end(): Promise<void> {
    await this.#checked(async () => {
      await this.#write(this.#decoder.decode());
      this.#stream.end();
      await this.#ended;
      if (!this.#builder.isComplete) throw new Error("the array does not end");
    });
  }

  elements(): ArrayElement[] {
    return this.#builder.elements();
  }

  close(): void {
    this.#stream.destroy();
  }

  #write(text: string): Promise<void> {
    if (text === "") return Promise.resolve();
    return new Promise((resolve, reject) => {
      // A stream destroyed amid a write never calls back.
      const onClose = (): void => reject(this.#stream.errored ?? new Error("the parser was closed"));
      this.#stream.once("close", onClose);
      this.#stream.write(text, (error) => {
        this.#stream.off("close", onClose);
        if (error) reject(error);
        else resolve();
      });
    });
  }

  async #checked(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (cause) {
      const found = this.#stream.errored ?? cause;
      const reason = messageOf(found);
      // The parser passes on nothing of a slice in which it found an error, so the place is as exact as a slice.
      const place = `at element ${this.#builder.elementCount + 1} or later, bytes ${this.#sliceStart} to ${this.#bytes}`;
      const details = { fromElement: this.#builder.elementCount + 1 };
      throw new PerigeeError("invalid_array", `expected one JSON array: ${reason} (${place})`, {
        cause,
        details,
      });
    }
  }
}

/** Puts elements together from tokens. */
class ElementBuilder {
  elementCount = 0;
  /** The array has been closed. */
  isComplete = false;
  readonly #charsMax: number;
  #done: ArrayElement[] = [];
  /** Open brackets, the array's own included. */
  #depth = 0;
  #needsComma = false;
  #refusal: "line_too_long" | "too_deep" | undefined;
  #chars = 0;
  #pieces: string[] = [];
  /** Pieces already joined. */
  #blocks: string[] = [];

  constructor(charsMax: number) {
    this.#charsMax = charsMax;
  }

  /** Whole elements since the last call. */
  elements(): ArrayElement[] {
    const done = this.#done;
    this.#done = [];
    return done;
  }

  /** Returns why the array cannot be read on, or undefined. */
  take(token: parser.Token): string | undefined {
    const { name, value } = token;
    if (this.#depth === 0) return this.#begin(name);
    if (name === "stringChunk") this.#add(JSON.stringify(value).slice(1, -1));
    else if (name === "numberChunk") this.#add(value);
    else if (name === "startKey" || name === "startString") this.#start('"');
    else if (name === "endKey") this.#endKey();
    else if (name === "endString") this.#endValue('"');
    else if (name === "startNumber") this.#start("");
    else if (name === "endNumber") this.#endValue("");
    else if (name === "startObject" || name === "startArray")
      return this.#open(name === "startObject" ? "{" : "[");
    else if (name === "endObject" || name === "endArray") this.#close(name === "endObject" ? "}" : "]");
    else this.#literal(name);
    return undefined;
  }

  #begin(name: string): string | undefined {
    if (name !== "startArray") return "the text does not begin with [";
    this.#depth = 1;
    return undefined;
  }

  #open(bracket: string): string | undefined {
    this.#start(bracket);
    this.#needsComma = false;
    this.#depth++;
    if (this.#depth - 1 > DEPTH_MAX) this.#refuse("too_deep");
    return this.#depth > NESTING_MAX ? `nested deeper than ${NESTING_MAX} levels` : undefined;
  }

  #close(bracket: string): void {
    this.#depth--;
    if (this.#depth === 0) this.isComplete = true;
    else this.#endValue(bracket);
  }

  #literal(name: string): void {
    this.#start("");
    this.#endValue(name === "trueValue" ? "true" : name === "falseValue" ? "false" : "null");
  }

  #start(text: string): void {
    this.#add(this.#needsComma ? `,${text}` : text);
    this.#needsComma = false;
  }

  #endKey(): void {
    this.#add('":');
    this.#needsComma = false;
  }

  #endValue(text: string): void {
    this.#add(text);
    this.#needsComma = this.#depth > 1;
    if (this.#depth === 1) this.#finish();
  }

  #add(text: string): void {
    if (this.#refusal !== undefined || text === "") return;
    this.#chars += text.length;
    if (this.#chars > this.#charsMax) {
      this.#refuse("line_too_long");
      return;
    }
    this.#pieces.push(text);
    if (this.#pieces.length >= PIECES_MAX) this.#joinPieces();
  }

  #refuse(code: "line_too_long" | "too_deep"): void {
    this.#refusal ??= code;
    this.#pieces = [];
    this.#blocks = [];
  }

  #joinPieces(): void {
    this.#blocks.push(this.#pieces.join(""));
    this.#pieces = [];
  }

  #finish(): void {
    this.elementCount++;
    const code = this.#refusal;
    this.#joinPieces();
    this.#done.push(
      code === undefined
        ? { kind: "line", text: this.#blocks.join("") }
        : { kind: "refused", line: this.elementCount, code },
    );
    this.#refusal = undefined;
    this.#chars = 0;
    this.#blocks = [];
  }
}
