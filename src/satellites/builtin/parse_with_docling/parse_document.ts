/**
 * One document by its kind. Runs in the process that parses; loads only what the kind needs.
 */
import { parseCsv } from "./parse_csv.ts";
import { parseDocx } from "./parse_docx.ts";
import { parseHtml } from "./parse_html.ts";
import { parsePdf } from "./parse_pdf.ts";
import {
  type DocumentFormat,
  type DocumentKind,
  type ParsedDocument,
  ParseError,
  type ParseOrder,
  type ParseResult,
  TEXT_LENGTH_MAX,
} from "./parsed_document.ts";

/** Never rejects except without memory. */
export async function parseDocument({ bytes, kind, format }: ParseOrder): Promise<ParseResult> {
  try {
    const parsed = await parse(bytes, kind, format);
    if (parsed.text.length <= TEXT_LENGTH_MAX) return parsed;
    throw new ParseError("too_complex", `the document has more than ${TEXT_LENGTH_MAX} characters`);
  } catch (error) {
    if (error instanceof ParseError) return { ok: false, code: error.code, message: error.message };
    // The stack ran out: nested too deep.
    if (error instanceof RangeError)
      return { ok: false, code: "too_complex", message: "the document is nested too deep" };
    return { ok: false, code: "invalid_document", message: "the document cannot be read" };
  }
}

async function parse(bytes: Uint8Array, kind: DocumentKind, format: DocumentFormat): Promise<ParsedDocument> {
  if (kind === "pdf") return parsePdf(bytes, format);
  if (kind === "docx") return parseDocx(bytes, format);
  const text = decode(bytes, kind);
  if (kind === "html") return parseHtml(text, format);
  if (kind === "csv") return parseCsv(text, format);
  return { ok: true, text: format === "json" ? plainJson(text, kind) : text, package: "perigee" };
}

function plainJson(text: string, kind: DocumentKind): string {
  if (kind !== "json") return JSON.stringify({ kind, title: null, [kind]: text });
  try {
    return JSON.stringify({ kind, value: JSON.parse(text) });
  } catch (cause) {
    throw new ParseError("invalid_document", "the document is not valid JSON", { cause });
  }
}

/** By its byte order mark, or what HTML says of itself, or UTF-8; anything else is windows-1252, as in browsers. */
function decode(bytes: Uint8Array, kind: DocumentKind): string {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  const head = kind === "html" ? Buffer.from(bytes.subarray(0, 1_024)).toString("latin1") : "";
  const said = /<meta[^>]{1,200}charset=["']?([\w-]{1,40})/i.exec(head)?.[1];
  try {
    return new TextDecoder(said ?? "utf-8", { fatal: said === undefined }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}
