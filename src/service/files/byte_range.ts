/**
 * Ranges of bytes (RFC 9110, 14.2): one at a time; anything but a single range is ignored.
 */

export type ByteRange =
  | { readonly kind: "all" }
  /** `end` is exclusive. */
  | { readonly kind: "part"; readonly start: number; readonly end: number }
  | { readonly kind: "unsatisfiable" };

const ALL: ByteRange = { kind: "all" };
const SINGLE = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i;

/** What a `Range` header asks of so many bytes. */
export function rangeOf(header: string | undefined, bytes: number): ByteRange {
  const match = header === undefined ? null : SINGLE.exec(header);
  if (match === null) return ALL;
  const [, first = "", last = ""] = match;
  if (first === "" && last === "") return ALL;
  if (first === "") {
    const count = Math.min(Number(last), bytes);
    return count === 0 ? { kind: "unsatisfiable" } : { kind: "part", start: bytes - count, end: bytes };
  }
  const start = Number(first);
  if (last !== "" && Number(last) < start) return ALL;
  if (start >= bytes) return { kind: "unsatisfiable" };
  return { kind: "part", start, end: last === "" ? bytes : Math.min(Number(last) + 1, bytes) };
}
