/**
 * File names, as their owners set them: only for display, never a path.
 *
 * Limits: 1 to 255 bytes of UTF-8 after normalisation to NFC; no separators, no control characters, no marks that change text direction
 * (a name must read as it is), and neither `.` nor `..`.
 */
import { PerigeeError } from "../../errors.ts";

const NAME_BYTES_MAX = 255;

/** Control characters, half surrogate pairs, separators of lines and paths, and direction marks. */
const REFUSED = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}/\\\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

/** The name in NFC; throws `invalid_request` if it is invalid. */
export function checkFileName(given: string): string {
  const name = given.normalize("NFC");
  const lengthBytes = Buffer.byteLength(name);
  if (lengthBytes === 0) throw refused("it is empty");
  if (lengthBytes > NAME_BYTES_MAX)
    throw refused(`it has ${lengthBytes} bytes, at most ${NAME_BYTES_MAX} are allowed`);
  const found = REFUSED.exec(name)?.[0];
  if (found !== undefined) {
    const point = found.codePointAt(0) ?? 0;
    throw refused(`it holds U+${point.toString(16).toUpperCase().padStart(4, "0")}`);
  }
  if (name === "." || name === "..") throw refused("it means a folder");
  return name;
}

function refused(reason: string): PerigeeError {
  return new PerigeeError("invalid_request", `this cannot be the name of a file: ${reason}`, {
    details: { param: "file_name" },
  });
}
