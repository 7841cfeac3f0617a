/**
 * The text of a file, in pieces of 64 KiB, with its encoding checked.
 */
import { open } from "node:fs/promises";
import { PerigeeError } from "../errors.ts";
import { lineEnds } from "../jsonl/lines.ts";
import { type Foreign, HEAD_BYTES_MAX, sniff } from "../jsonl/sniff.ts";

/**
 * Texts cut from a piece keep it: of 1 MiB, a million rows peak at 232 MiB instead of 140. V8 has strings of 128 KiB and more in pages of
 * their own, which only a full collection frees.
 */
const PIECE_BYTES = 64 * 1024;
const MARK = "\ufeff";

const WAYS_ON: Readonly<Record<Exclude<Foreign["kind"], "table">, string>> = {
  utf16: "convert it first, for example with iconv -f UTF-16 -t UTF-8",
  compressed: "unpack it first",
  workbook: "save the sheet as CSV in UTF-8",
  binary: "a table is CSV, TSV or JSON lines in UTF-8, or Parquet, by the end of its name",
};

/** The first bytes of a file, and whether it begins with a byte order mark. Throws `input_unreadable`, `unsupported_encoding`. */
export async function headText(path: string): Promise<{ readonly text: string; readonly hasMark: boolean }> {
  const head = Buffer.alloc(HEAD_BYTES_MAX);
  const file = await open(path, "r").catch((cause: unknown) => {
    throw new PerigeeError("input_unreadable", `${path} cannot be opened`, { cause });
  });
  const { bytesRead } = await file.read(head, 0, head.length, 0).finally(() => file.close());
  const found = sniff(head.subarray(0, bytesRead), path);
  if (found !== undefined && found.kind !== "table")
    throw new PerigeeError(
      "unsupported_encoding",
      `${path} is ${found.words}, expected text in UTF-8; ${WAYS_ON[found.kind]}`,
      { details: { kind: found.kind } },
    );
  const text = head.toString("utf8", 0, bytesRead);
  return { text: text.replace(MARK, ""), hasMark: text.startsWith(MARK) };
}

/** Without a byte order mark. Throws `unsupported_encoding` for bytes that are not UTF-8, `input_unreadable`. */
export async function* fileText(path: string): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let line = 1;
  for await (const bytes of pieces(path)) {
    const piece = decoded(decoder, bytes, path, line);
    line += lineEnds(bytes);
    if (piece !== "") yield piece;
  }
  const rest = decoded(decoder, undefined, path, line);
  if (rest !== "") yield rest;
}

/** Each is valid until the next: a stream would leave a buffer for each as garbage. */
async function* pieces(path: string): AsyncGenerator<Buffer> {
  const file = await open(path, "r");
  try {
    const bytes = Buffer.allocUnsafeSlow(PIECE_BYTES);
    for (;;) {
      const { bytesRead } = await file.read(bytes, 0, PIECE_BYTES, null);
      if (bytesRead === 0) return;
      yield bytes.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}

function decoded(
  decoder: InstanceType<typeof TextDecoder>,
  bytes: Buffer | undefined,
  path: string,
  line: number,
): string {
  try {
    return bytes === undefined ? decoder.decode() : decoder.decode(bytes, { stream: true });
  } catch (cause) {
    const at = bytes === undefined ? line : line + lineEnds(beforeFault(bytes));
    throw new PerigeeError(
      "unsupported_encoding",
      `${path} is not UTF-8 (line ${at}); convert it first, for example with iconv -f WINDOWS-1252 -t UTF-8`,
      { cause },
    );
  }
}

/** The whole lines before the first one that is not UTF-8; a line that began in the piece before is taken as it is. */
function beforeFault(bytes: Buffer): Buffer {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for (let at = bytes.indexOf(0x0a) + 1; at > 0; ) {
    const end = bytes.indexOf(0x0a, at) + 1;
    const line = end === 0 ? bytes.subarray(at) : bytes.subarray(at, end);
    try {
      decoder.decode(line);
    } catch {
      return bytes.subarray(0, at);
    }
    at = end;
  }
  return bytes.subarray(0, 0);
}
