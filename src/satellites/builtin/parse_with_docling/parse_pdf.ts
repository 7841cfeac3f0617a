/**
 * The text of a PDF, page by page. The only import of unpdf. Runs in the process that parses.
 *
 * A PDF of scanned pages has no text: that is said, because nothing is a wrong answer; pages without text among others are
 * named. Limits: 5,000 pages.
 */
import { type DocumentFormat, type ParsedDocument, ParseError } from "./parsed_document.ts";

const PAGES_MAX = 5_000;

/** Throws `ParseError` of code `no_text` for pages that are pictures. */
export async function parsePdf(bytes: Uint8Array, format: DocumentFormat): Promise<ParsedDocument> {
  const { getDocumentProxy } = await import("unpdf");
  const { pages, title } = await readPages(getDocumentProxy, bytes);
  const count = pages.length;
  if (pages.every((text) => text === "")) {
    const message = `the PDF has ${count} ${count === 1 ? "page" : "pages"} and no text, as scanned ones do: set config.server to a docling server with OCR`;
    throw new ParseError("no_text", message);
  }
  const text =
    format === "json"
      ? JSON.stringify({
          kind: "pdf",
          title,
          pages: pages.map((page, index) => ({ number: index + 1, text: page })),
        })
      : pages.filter((page) => page !== "").join("\n\n");
  const pagesWithoutText = pages.flatMap((page, index) => (page === "" ? [index + 1] : []));
  return { ok: true, text, package: "unpdf", pages: count, pagesWithoutText };
}

type Open = typeof import("unpdf").getDocumentProxy;

async function readPages(open: Open, bytes: Uint8Array): Promise<{ pages: string[]; title: string | null }> {
  try {
    // A copy: unpdf does not accept a Buffer, and may transfer its memory.
    const pdf = await open(new Uint8Array(bytes), {
      isEvalSupported: false,
      useSystemFonts: false,
      verbosity: 0,
    });
    if (pdf.numPages > PAGES_MAX)
      throw new ParseError("too_complex", `the PDF has more than ${PAGES_MAX} pages`);
    const pages: string[] = [];
    for (let number = 1; number <= pdf.numPages; number += 1) {
      const page = await pdf.getPage(number);
      pages.push(textOf((await page.getTextContent()).items));
      page.cleanup();
    }
    return { pages, title: await titleOf(pdf) };
  } catch (cause) {
    if (cause instanceof ParseError) throw cause;
    if (cause instanceof Error && cause.name === "PasswordException")
      throw new ParseError("encrypted", "the PDF needs a password", { cause });
    throw new ParseError("invalid_document", "the document is not a readable PDF", { cause });
  }
}

type Pdf = Awaited<ReturnType<Open>>;

/** Lines as they are set; blank ones where the distance between lines says that a paragraph ends. */
function textOf(
  items: Awaited<ReturnType<Awaited<ReturnType<Pdf["getPage"]>>["getTextContent"]>>["items"],
): string {
  let text = "";
  let lastY: number | undefined;
  let height = 0;
  for (const item of items) {
    if (!("str" in item)) continue;
    const y: unknown = item.transform[5];
    const isBelow = lastY !== undefined && typeof y === "number" && lastY - y > 1.8 * Math.max(height, 1);
    if (isBelow && !text.endsWith("\n\n")) text += text.endsWith("\n") ? "\n" : "\n\n";
    text += item.str;
    if (item.hasEOL && !text.endsWith("\n")) text += "\n";
    if (item.str.trim() === "") continue;
    if (typeof y === "number") lastY = y;
    height = item.height;
  }
  return text.replace(/[ \t]+$/gm, "").trim();
}

async function titleOf(pdf: Pdf): Promise<string | null> {
  const { info } = await pdf.getMetadata();
  const title: unknown = Reflect.get(info, "Title");
  return typeof title === "string" && title.trim() !== "" ? title.trim() : null;
}
