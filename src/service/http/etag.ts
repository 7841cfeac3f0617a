/**
 * Tags of answers (RFC 9110, 8.8.3).
 */
import { createHash } from "node:crypto";

/** The tag of a content: 128 bits of its SHA-256. */
export function etagOf(content: string | Uint8Array): string {
  return `"${createHash("sha256").update(content).digest("base64url").slice(0, 22)}"`;
}

/** `If-None-Match` (RFC 9110, 13.1.2), compared weakly. */
export function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch === etag || ifNoneMatch.trim() === "*") return true;
  return ifNoneMatch.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
}
