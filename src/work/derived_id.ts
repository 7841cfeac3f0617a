/**
 * Ids that follow from others, so that work done again after a crash finds what it made before.
 *
 *   id = UUID of version 8 (RFC 9562, 5.8) on the first 16 bytes of SHA-256(parent NUL name), or of another text
 */
import { hash } from "node:crypto";

/** The same for the same parent and name, and for no others. `parent` holds no NUL. */
export function derivedId(parent: string, name: string): string {
  return digestId(`${parent}\0${name}`);
}

/** The same of one text, for parents that are several. */
export function digestId(text: string): string {
  const digits = hash("sha256", text, "hex");
  const variant = ((Number.parseInt(digits.slice(16, 17), 16) & 0x3) | 0x8).toString(16);
  return [
    digits.slice(0, 8),
    digits.slice(8, 12),
    `8${digits.slice(13, 16)}`,
    `${variant}${digits.slice(17, 20)}`,
    digits.slice(20, 32),
  ].join("-");
}
