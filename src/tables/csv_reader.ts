/**
 * Records of comma-separated values (RFC 4180), from text that arrives in pieces.
 *
 * A field in quotes may hold separators, line ends and doubled quotes; a quote within a field that does not begin with one is a character
 * of it. Lines end with LF or CRLF, or with CR in a file that has no LF after its header. A blank line is not a record. What would be guessed is an error with the number of its line: text after
 * a closing quote, a quote that is never closed, a record longer than the limit.
 *
 * Hot: a million records of 130 bytes, a quarter of their fields in quotes, take 1.0 s; csv-parse takes 6.2 s for them
 * (bench/jobs/tables.ts). A record without a quote is one `split`.
 */
import { PerigeeError } from "../errors.ts";

const QUOTE = 0x22;
const CR = 0x0d;
/** What ends a line. A CR before an LF belongs to the line end. */
type LineEnd = "\n" | "\r";
/** The longest record, in UTF-16 units: a longer one has most likely lost a closing quote. */
const RECORD_CHARS_MAX: number = 16 * 1024 * 1024;

/** The fields of a record. */
export interface CsvRecord {
  readonly fields: readonly string[];
  /** Where it begins, from 1. */
  readonly line: number;
}

/** How records are read. */
export interface CsvFormat {
  /** One character, neither a quote nor a line end. */
  readonly delimiter: string;
  /** Default: LF. */
  readonly lineEnd?: LineEnd | undefined;
  /** The name of the file, for messages. */
  readonly name: string;
}

/** A reader of one file; pass pieces in order, then `end`. */
export class CsvReader {
  readonly #format: CsvFormat;
  /** What follows the last whole record. */
  #rest = "";
  /** The line that `#rest` begins with. */
  #line = 1;

  constructor(format: CsvFormat) {
    this.#format = format;
  }

  /** The records that end in this piece. Throws `input_unreadable`. */
  take(piece: string): CsvRecord[] {
    return this.#read(this.#rest + piece, false);
  }

  /** The record after the last line end. Throws `input_unreadable`. */
  end(): CsvRecord[] {
    return this.#read(this.#rest, true);
  }

  #read(text: string, isLast: boolean): CsvRecord[] {
    const { delimiter, lineEnd: newline = "\n" } = this.#format;
    const records: CsvRecord[] = [];
    let nextQuote = text.indexOf('"');
    let at = 0;
    while (at < text.length) {
      const lineEnd = text.indexOf(newline, at);
      if (nextQuote >= 0 && nextQuote < at) nextQuote = text.indexOf('"', at);
      if (nextQuote < 0 || (lineEnd >= 0 && lineEnd < nextQuote)) {
        if (lineEnd < 0 && !isLast) break;
        const end = lineEnd < 0 ? text.length : lineEnd;
        const contentEnd = end > at && text.charCodeAt(end - 1) === CR ? end - 1 : end;
        if (contentEnd > at)
          records.push({ fields: text.slice(at, contentEnd).split(delimiter), line: this.#line });
        this.#line += 1;
        at = end + 1;
        continue;
      }
      const quoted = this.#quotedRecord(text, at, isLast);
      if (quoted === undefined) break;
      records.push({ fields: quoted.fields, line: this.#line });
      this.#line += quoted.lines;
      at = quoted.end;
    }
    this.#rest = text.slice(at);
    if (this.#rest.length > RECORD_CHARS_MAX)
      throw this.#fault(
        this.#line,
        `begins a row of more than ${RECORD_CHARS_MAX} characters; is a closing quote missing?`,
      );
    return records;
  }

  /** Undefined when its end has not arrived. `end` is after its line end. */
  #quotedRecord(
    text: string,
    from: number,
    isLast: boolean,
  ): { readonly fields: string[]; readonly end: number; readonly lines: number } | undefined {
    const { delimiter, lineEnd: newline = "\n" } = this.#format;
    const fields: string[] = [];
    let lines = 1;
    let at = from;
    for (;;) {
      let end: number;
      if (text.charCodeAt(at) === QUOTE) {
        const closing = closingQuote(text, at + 1);
        if (closing < 0 && !isLast) return undefined;
        if (closing < 0) throw this.#fault(this.#line + lines - 1, "opens a quote that is never closed");
        const field = text.slice(at + 1, closing);
        fields.push(field.includes('"') ? field.replaceAll('""', '"') : field);
        lines += field.split(newline).length - 1;
        end = closing + 1;
        if (end === text.length && !isLast) return undefined; // the next piece may begin with a quote
      } else {
        const [lineEnd, separator] = [text.indexOf(newline, at), text.indexOf(delimiter, at)];
        if (lineEnd < 0 && separator < 0 && !isLast) return undefined;
        end = Math.min(lineEnd < 0 ? text.length : lineEnd, separator < 0 ? text.length : separator);
        const isCut = end > at && text.charCodeAt(end) !== delimiter.charCodeAt(0);
        if (isCut && text.charCodeAt(end - 1) === CR) end -= 1;
        fields.push(text.slice(at, end));
      }
      if (text.startsWith(delimiter, end)) {
        at = end + 1;
        continue;
      }
      const ending = lineEnding(text, end, newline);
      if (ending === undefined && !isLast) return undefined;
      if (ending === undefined)
        throw this.#fault(
          this.#line + lines - 1,
          `has text after a closing quote, in field ${fields.length}: a quote within a field in quotes is doubled`,
        );
      if (ending === "cut" && !isLast) return undefined;
      return { fields, end: ending === "cut" ? text.length : ending, lines };
    }
  }

  #fault(line: number, what: string): PerigeeError {
    return new PerigeeError("input_unreadable", `${this.#format.name}: line ${line} ${what}`);
  }
}

/** The quote that is not doubled; -1 without one. */
function closingQuote(text: string, from: number): number {
  for (let at = text.indexOf('"', from); at >= 0; at = text.indexOf('"', at + 2))
    if (text.charCodeAt(at + 1) !== QUOTE) return at;
  return -1;
}

/** What follows the line end at `at`; `cut` at the end of the text; undefined when something else is there. */
function lineEnding(text: string, at: number, newline: LineEnd): number | "cut" | undefined {
  if (at >= text.length) return "cut";
  if (newline === "\r") return text[at] === newline ? at + 1 : undefined;
  if (text.charCodeAt(at) === CR && at + 1 >= text.length) return "cut";
  const line = text.charCodeAt(at) === CR ? at + 1 : at;
  return text[line] === "\n" ? line + 1 : undefined;
}
