/**
 * Recognises input that cannot be JSON lines in UTF-8: other encodings, compressed files, spreadsheets, tables
 * with commas, and other binary files.
 *
 * Only certain signs count: a magic number, a byte order mark, text in which every character is wrapped in NULs, lines that
 * have the same number of columns where JSON was expected. A NUL here and there is a fault of its line, not of the file.
 */
import { isUtf8 } from "node:buffer";
import type { DiskFile } from "../disk.ts";

/** Bytes that are read to recognise an input, at most. */
export const HEAD_BYTES_MAX = 4_096;
/** Of them, those in which wide characters are looked for. */
const WIDE_BYTES_MAX = 64;

/** What an input is that cannot be read: in words, and what its user can do. */
export interface Foreign {
  readonly kind: "utf16" | "compressed" | "workbook" | "table" | "binary";
  /** To follow "it is", such as `UTF-16 text`. */
  readonly words: string;
}

/** First bytes, and what they begin. */
const SIGNATURES: readonly (readonly [bytes: string, kind: Foreign["kind"], words: string])[] = [
  ["0000feff", "utf16", "UTF-32 text"],
  ["fffe0000", "utf16", "UTF-32 text"],
  ["fffe", "utf16", "UTF-16 text"],
  ["feff", "utf16", "UTF-16 text"],
  ["1f8b", "compressed", "compressed (gzip)"],
  ["504b0304", "compressed", "a zip archive"],
  ["504b0506", "compressed", "a zip archive"],
  ["504b0708", "compressed", "a zip archive"],
  ["28b52ffd", "compressed", "compressed (zstd)"],
  ["425a68", "compressed", "compressed (bzip2)"],
  ["fd377a585a00", "compressed", "compressed (xz)"],
  ["04224d18", "compressed", "compressed (lz4)"],
  ["377abcaf271c", "compressed", "a 7z archive"],
  ["d0cf11e0a1b11ae1", "workbook", "an old Excel or Word file"],
  ["25504446", "binary", "a PDF document"],
  ["89504e470d0a1a0a", "binary", "a PNG image"],
  ["ffd8ff", "binary", "a JPEG image"],
  ["474946383", "binary", "a GIF image"],
  ["50415231", "binary", "a Parquet file"],
  ["53514c69746520666f726d61742033", "binary", "an SQLite database"],
  ["7f454c46", "binary", "a program"],
];

/** Share of 16-bit units that must have a NUL in the same half: the first characters of JSONL are ASCII. */
const WIDE_SHARE_MIN = 0.75;
/** Share of control characters, NULs aside, from which bytes that are not UTF-8 are not text. */
const CONTROL_SHARE_MIN = 0.02;
/** Bytes with at least this share and number of NULs are not text in any encoding; fewer are refused as a line. */
const NUL_SHARE_MIN = 0.9;
const NUL_BYTES_MIN = 64;
/** Lines that must have the same number of columns. */
const TABLE_LINES = 2;
const DELIMITERS = [",", "\t", ";"] as const;

/**
 * `bytes` are the first of the input, 64 or more where there are so many; `name` is what it is called. Undefined when it
 * may be JSON lines.
 */
export function sniff(bytes: Uint8Array, name = ""): Foreign | undefined {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, HEAD_BYTES_MAX));
  const hex = head.toString("hex", 0, 16);
  const signed = SIGNATURES.find(([start]) => hex.startsWith(start));
  if (signed !== undefined) {
    const [, kind, words] = signed;
    return isWorkbook(head, words)
      ? { kind: "workbook", words: "an Excel workbook (.xlsx)" }
      : { kind, words };
  }
  if (isWideText(head.subarray(0, WIDE_BYTES_MAX))) return { kind: "utf16", words: "UTF-16 or UTF-32 text" };
  const first = head.find((byte) => byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d);
  if (first === undefined || first === 0x7b || first === 0x5b || first === 0xef) return undefined; // { [ or a mark
  if (isBinary(head)) return { kind: "binary", words: "a binary file" };
  return isTable(head.toString("latin1"), name) ? { kind: "table", words: "a table (CSV)" } : undefined;
}

function isWorkbook(head: Buffer, words: string): boolean {
  return words === "a zip archive" && (head.includes("[Content_Types].xml") || head.includes("xl/workbook"));
}

function isBinary(head: Buffer): boolean {
  const nuls = head.filter((byte) => byte === 0).length;
  if (nuls >= NUL_BYTES_MIN && nuls >= head.length * NUL_SHARE_MIN) return true;
  const controls = head.filter((byte) => byte > 0 && byte < 0x20 && (byte < 0x09 || byte > 0x0d)).length;
  return controls > 0 && controls >= head.length * CONTROL_SHARE_MIN && !isUtf8(head.subarray(0, -3));
}

/** Lines of text with the same number of columns, none of them JSON; a file named as a table may have a single line. */
function isTable(text: string, name: string): boolean {
  const lines = text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(0, TABLE_LINES);
  if (lines.some(isJson)) return false;
  if (/\.(csv|tsv)$/i.test(name)) return lines.length > 0;
  return DELIMITERS.some((delimiter) => {
    const columns = lines.map((line) => line.replace(/"[^"]*"/g, "").split(delimiter).length);
    return (
      columns.length === TABLE_LINES &&
      (columns[0] ?? 0) > 1 &&
      columns.every((count) => count === columns[0])
    );
  });
}

function isJson(line: string): boolean {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}

/** UTF-16 or UTF-32 without a mark. */
function isWideText(bytes: Uint8Array): boolean {
  const quads = bytes.length >> 2;
  if (quads === 0) return false;
  const nuls = [0, 0, 0, 0];
  for (let index = 0; index < quads * 4; index++) if (bytes[index] === 0) nuls[index & 3]!++; // four of them
  const [a, b, c, d] = nuls as [number, number, number, number];
  const most = quads * WIDE_SHARE_MIN;
  const isLittle = b >= most && d >= most && a === 0; // UTF-16LE: c is 0, UTF-32LE: c is NUL too
  const isBig = a >= most && c >= most && d === 0;
  const isUtf32Big = quads > 1 && a >= most && b >= most && c >= most && d === 0;
  return (isLittle && (c === 0 || c >= most)) || (isBig && b === 0) || isUtf32Big;
}

/** The first bytes of a file, at most `HEAD_BYTES_MAX`. */
export async function headOf(file: Pick<DiskFile, "read">): Promise<Buffer> {
  const head = Buffer.alloc(HEAD_BYTES_MAX);
  return head.subarray(0, await file.read(head, 0));
}
