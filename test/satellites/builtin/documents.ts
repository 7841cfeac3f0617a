/**
 * Small documents, made here: what is in them can be read in the test.
 */
import { deflateRawSync } from "node:zlib";
import { storedZip } from "../../../src/satellites/builtin/parse_with_docling/zip_entries.ts";

/** A PDF with a page for each text; an empty text is a page without any. */
export function pdf(pages: readonly string[], title?: string): Buffer {
  const objects: string[] = ["<< /Type /Catalog /Pages 2 0 R >>", ""];
  objects.push("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>");
  const kids: string[] = [];
  for (const text of pages) {
    const lines = text.split("\n").map((line) => `(${line.replace(/[()\\]/g, "\\$&")}) Tj T*`);
    const content = text === "" ? "" : `BT /F1 12 Tf 14 TL 72 720 Td ${lines.join(" ")} ET`;
    objects.push(`<< /Length ${content.length} >>\nstream\n${content}\nendstream`);
    const resources = "<< /Font << /F1 3 0 R >> >>";
    objects.push(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents ${objects.length} 0 R /Resources ${resources} >>`,
    );
    kids.push(`${objects.length} 0 R`);
  }
  objects[1] = `<< /Type /Pages /Kids [${kids.join(" ")}] /Count ${pages.length} >>`;
  if (title !== undefined) objects.push(`<< /Title (${title}) >>`);
  return assemble(objects, title === undefined ? "" : `/Info ${objects.length} 0 R `);
}

function assemble(objects: readonly string[], more: string): Buffer {
  let text = "%PDF-1.4\n";
  const offsets: number[] = [];
  for (const [index, object] of objects.entries()) {
    offsets.push(text.length);
    text += `${index + 1} 0 obj\n${object}\nendobj\n`;
  }
  const start = text.length;
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n`;
  for (const offset of offsets) text += `${String(offset).padStart(10, "0")} 00000 n \n`;
  text += `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R ${more}>>\nstartxref\n${start}\n%%EOF\n`;
  return Buffer.from(text, "latin1");
}

/** A PDF whose page has so many MiB of picture or content, packed a thousandfold. */
export function pdfBomb(mebibytes: number): Buffer {
  const inflated = Buffer.alloc(1024 * 1024, "0 0 m ");
  const packed = zlibOf(inflated, mebibytes);
  const head = "%PDF-1.4\n";
  const parts = [
    "1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n",
    "2 0 obj\n<< /Type /Pages /Kids [4 0 R] /Count 1 >>\nendobj\n",
    "4 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 3 0 R >>\nendobj\n",
  ].join("");
  const stream = `3 0 obj\n<< /Filter /FlateDecode /Length ${packed.length} >>\nstream\n`;
  const tail = "\nendstream\nendobj\ntrailer\n<< /Size 5 /Root 1 0 R >>\n%%EOF\n";
  return Buffer.concat([Buffer.from(head + parts + stream), packed, Buffer.from(tail)]);
}

/** The same block so many times, in zlib's format, without making it all here. */
function zlibOf(block: Buffer, times: number): Buffer {
  const one = deflateRawSync(block, { finishFlush: 2 /* Z_SYNC_FLUSH: another may follow */ });
  const last = Buffer.from([0x03, 0x00]);
  return Buffer.concat([Buffer.from([0x78, 0x9c]), ...Array(times).fill(one), last, Buffer.alloc(4)]);
}

const TYPES = `<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`;
const RELS = `<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`;

/** A docx with this body (paragraphs and tables of WordprocessingML). */
export function docx(body: string): Buffer {
  const xml = `<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>${body}</w:body></w:document>`;
  return storedZip([
    { name: "[Content_Types].xml", bytes: Buffer.from(TYPES) },
    { name: "_rels/.rels", bytes: Buffer.from(RELS) },
    { name: "word/document.xml", bytes: Buffer.from(xml) },
  ]);
}

export const paragraph = (text: string, style?: string): string =>
  `<w:p>${style === undefined ? "" : `<w:pPr><w:pStyle w:val="${style}"/></w:pPr>`}<w:r><w:t xml:space="preserve">${text}</w:t></w:r></w:p>`;

/** A ZIP with one deflated entry, with any claimed sizes. */
export function deflatedZip(name: string, packed: Buffer, claimedBytes: number, flags = 0): Buffer {
  const nameBytes = Buffer.from(name);
  const shared = Buffer.alloc(26);
  shared.writeUInt16LE(20, 0);
  shared.writeUInt16LE(flags, 2);
  shared.writeUInt16LE(8, 4);
  shared.writeUInt32LE(packed.length, 14);
  shared.writeUInt32LE(claimedBytes, 18);
  shared.writeUInt16LE(nameBytes.length, 22);
  const local = Buffer.concat([Buffer.from("PK\x03\x04", "latin1"), shared, nameBytes, packed]);
  const central = Buffer.concat([
    Buffer.from("PK\x01\x02\x14\0", "latin1"),
    shared,
    Buffer.alloc(14),
    nameBytes,
  ]);
  const end = Buffer.alloc(22);
  end.write("PK\x05\x06", "latin1");
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(local.length, 16);
  return Buffer.concat([local, central, end]);
}

/** Deflated zeros: so many MiB in about a thousandth of that. */
export function deflatedBlanks(mebibytes: number): Buffer {
  const one = deflateRawSync(Buffer.alloc(1024 * 1024, " "), { finishFlush: 2 });
  return Buffer.concat([...Array(mebibytes).fill(one), Buffer.from([0x03, 0x00])]);
}
