/** Reads a `multipart/form-data` body: the texts of its fields and the bytes of its file. */
import { Buffer } from "node:buffer";

export interface Form {
  readonly fields: Readonly<Record<string, string>>;
  readonly file: { readonly filename: string; readonly bytes: Uint8Array } | undefined;
}

/** Undefined where the body is not such a form. */
export function formOf(contentType: string | undefined, body: Uint8Array): Form | undefined {
  const boundary = /boundary="?([^";]+)"?/i.exec(contentType ?? "")?.[1];
  if (boundary === undefined) return undefined;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const border = Buffer.from(`\r\n--${boundary}`);
  const fields: Record<string, string> = {};
  let file: Form["file"];
  let from = bytes.indexOf(`--${boundary}`) + border.length - 2;
  while (bytes.subarray(from, from + 2).toString() === "\r\n") {
    const headEnd = bytes.indexOf("\r\n\r\n", from);
    const end = bytes.indexOf(border, headEnd);
    if (headEnd < 0 || end < 0) return undefined;
    const head = bytes.subarray(from, headEnd).toString();
    const name = /\bname="([^"]*)"/i.exec(head)?.[1] ?? "";
    const filename = /\bfilename="([^"]*)"/i.exec(head)?.[1];
    const value = bytes.subarray(headEnd + 4, end);
    if (filename === undefined) fields[name] = value.toString();
    else file = { filename, bytes: Uint8Array.from(value) };
    from = end + border.length;
  }
  const isWhole = bytes.subarray(from, from + 2).toString() === "--";
  return isWhole ? { fields, file } : undefined;
}
