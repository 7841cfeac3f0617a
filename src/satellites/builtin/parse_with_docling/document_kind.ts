/**
 * What a document is, by its first bytes, then its type, then the ending of its name. Pure.
 *
 * Names lie more often than bytes: a PDF is a PDF under any name, and what has NUL bytes is not text.
 */
import type { DocumentKind, ParseFailure } from "./parsed_document.ts";

const HEAD_BYTES = 1_024;

/** First bytes of files that are not text, and the message for them. */
const MAGIC: readonly (readonly [string, DocumentKind | "image" | "office" | "archive"])[] = [
  ["25504446", "pdf"],
  ["504b0304", "docx"],
  ["89504e47", "image"],
  ["ffd8ff", "image"],
  ["47494638", "image"],
  ["49492a00", "image"],
  ["4d4d002a", "image"],
  ["424d", "image"],
  ["d0cf11e0", "office"],
  ["1f8b", "archive"],
];
const TYPES: Readonly<Record<string, DocumentKind>> = {
  "application/json": "json",
  "application/xhtml+xml": "html",
  "text/csv": "csv",
  "text/html": "html",
  "text/markdown": "markdown",
  "text/tab-separated-values": "csv",
  "text/x-markdown": "markdown",
};
const ENDINGS: Readonly<Record<string, DocumentKind>> = {
  csv: "csv",
  htm: "html",
  html: "html",
  json: "json",
  markdown: "markdown",
  md: "markdown",
  tsv: "csv",
  xhtml: "html",
};
const SERVER = "set config.server to a docling server, which reads it";

/** What the embedded engine reads it as; a failure says what else would. Reads the first 1,024 bytes. */
export function documentKind(
  bytes: Uint8Array,
  name: string,
  mimeType: string,
): { readonly ok: true; readonly kind: DocumentKind } | ParseFailure {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, HEAD_BYTES));
  const magic = magicOf(head);
  if (magic === "image") return refused(`an image has no text of its own: ${SERVER} with OCR`);
  if (magic === "office") return refused(`an old word-processor file: ${SERVER}, or save it as docx`);
  if (magic === "archive") return refused("a compressed file: unpack it first");
  if (magic !== undefined) return { ok: true, kind: magic };
  const isWide = head[0] === 0xff || head[0] === 0xfe; // UTF-16 has zeros
  if (head.includes(0) && !isWide) return refused(`neither text nor a known kind: ${SERVER}`);
  const type = mimeType.split(";")[0]?.trim().toLowerCase() ?? "";
  const ending = /\.([a-z0-9]{1,10})$/i.exec(name)?.[1]?.toLowerCase() ?? "";
  return { ok: true, kind: own(TYPES, type) ?? own(ENDINGS, ending) ?? byText(head.toString("latin1")) };
}

function magicOf(head: Buffer): (typeof MAGIC)[number][1] | undefined {
  const hex = head.subarray(0, 12).toString("hex");
  if (hex.startsWith("52494646") && hex.slice(16) === "57454250") return "image"; // WebP
  const found = MAGIC.find(([start]) => hex.startsWith(start))?.[1];
  // Some PDFs have other bytes before their mark, and readers take it within the first 1,024.
  return found ?? (head.includes("%PDF-") ? "pdf" : undefined);
}

function byText(head: string): DocumentKind {
  return /^(\ufeff|\xef\xbb\xbf)?\s*<(!doctype html|html)[\s>]/i.test(head) ? "html" : "text";
}

function own(table: Readonly<Record<string, DocumentKind>>, name: string): DocumentKind | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

function refused(message: string): ParseFailure {
  return { ok: false, code: "unsupported_type", message: `the document is ${message}` };
}
