/**
 * A word-processor file (docx, OOXML). The only import of mammoth. Runs in the process that parses.
 *
 * mammoth gets a ZIP with only the file's XML, unpacked before within bounds (`zip_entries.ts`): pictures are left out.
 */
import { toMarkdown } from "./parse_html.ts";
import { type DocumentFormat, type ParsedDocument, ParseError } from "./parsed_document.ts";
import { storedZip, unpackZip } from "./zip_entries.ts";

const MAIN = "word/document.xml";

/** Throws `ParseError`: `unsupported_type` for a ZIP that is not a docx, and as `unpackZip`. */
export async function parseDocx(bytes: Uint8Array, format: DocumentFormat): Promise<ParsedDocument> {
  const entries = unpackZip(bytes, (name) => /\.(xml|rels)$/i.test(name));
  if (!entries.some(({ name }) => name === MAIN))
    throw new ParseError(
      "unsupported_type",
      "the document is a ZIP without a docx in it: set config.server to a docling server for others, such as xlsx and pptx",
    );
  const { default: mammoth } = await import("mammoth");
  const buffer = storedZip(entries);
  try {
    if (format === "text") {
      const { value } = await mammoth.extractRawText({ buffer });
      return { ok: true, text: value.replace(/\n{3,}/g, "\n\n").trim(), package: "mammoth" };
    }
    const convertImage = mammoth.images.imgElement(async () => ({ src: "" }));
    const { value } = await mammoth.convertToHtml({ buffer }, { convertImage });
    const markdown = await toMarkdown(value);
    const text = format === "json" ? JSON.stringify({ kind: "docx", title: null, markdown }) : markdown;
    return { ok: true, text, package: "mammoth" };
  } catch (cause) {
    if (cause instanceof RangeError) throw cause;
    throw new ParseError("invalid_document", "the document is not a readable docx", { cause });
  }
}
