/**
 * What parsing returns and how it fails: plain data, because another process sends it.
 */

/** Kinds that the embedded engine reads. */
export type DocumentKind = "pdf" | "docx" | "html" | "csv" | "markdown" | "text" | "json";

/** The result: `json` is the document's structure, whose form is the engine's own. */
export type DocumentFormat = "markdown" | "text" | "json";

export interface ParsedDocument {
  readonly ok: true;
  /** In the requested format; JSON as its text. */
  readonly text: string;
  /** The package that read it; `perigee` if no package was needed. */
  readonly package: "unpdf" | "mammoth" | "turndown" | "csv-parse" | "perigee";
  /** Of a PDF. */
  readonly pages?: number;
  /** Of a PDF: their numbers, from 1. */
  readonly pagesWithoutText?: readonly number[];
}

/** Never passes by itself: the same bytes fail again. */
export interface ParseFailure {
  readonly ok: false;
  readonly code: "invalid_document" | "encrypted" | "no_text" | "too_complex" | "unsupported_type";
  readonly message: string;
}

export type ParseResult = ParsedDocument | ParseFailure;

/** Thrown within the process that parses. */
export class ParseError extends Error {
  readonly code: ParseFailure["code"];

  constructor(code: ParseFailure["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ParseError";
    this.code = code;
  }
}

/** One document for the process that parses. */
export interface ParseOrder {
  readonly bytes: Uint8Array;
  readonly kind: DocumentKind;
  readonly format: DocumentFormat;
}

/** Characters of a parsed document, at most. */
export const TEXT_LENGTH_MAX: number = 32 * 1024 * 1024;
