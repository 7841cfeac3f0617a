/**
 * Plain files of a page in the browser, at fixed addresses, with its headers.
 *
 *   first request of a file -> read and tagged -> answered from memory
 *
 * The files are the same from the sources and from `dist`. They hold no data of a project.
 */
import { readFileSync } from "node:fs";
import { etagOf } from "./etag.ts";
import type { FastifyInstance } from "./fastify.ts";

/** Types of the files. */
export const HTML = "text/html; charset=utf-8";
export const SCRIPT = "text/javascript; charset=utf-8";
export const STYLE = "text/css; charset=utf-8";

/** A file: its address, where it is, and what it is. */
export interface PageFile {
  readonly url: string;
  readonly path: string | URL;
  readonly type: string;
}

/** How a file is served. */
export interface PageFileOptions {
  /** Where a request belongs that used an address from which the page would not find its other files. */
  readonly movedTo?: ((originalUrl: string) => string | undefined) | undefined;
  /** Whether it ignores queries; else a query is refused, as everywhere. */
  readonly takesAnyQuery: boolean;
}

/** A content security policy by which a page loads and asks nothing but this server. */
export const OWN_FILES_ONLY: readonly string[] = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
];

/** What a page may do, as its content security policy says; the headers are those of every page. */
export function pageHeaders(policy: readonly string[]): Readonly<Record<string, string>> {
  return {
    "content-security-policy": policy.join("; "),
    "cache-control": "no-cache",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
  };
}

/** Serves the file without a key. Answers 500 when it cannot be read. */
export function registerPageFile(
  app: FastifyInstance,
  { url, path, type }: PageFile,
  headers: Readonly<Record<string, string>>,
  { movedTo, takesAnyQuery }: PageFileOptions,
): void {
  let file: { readonly bytes: Buffer; readonly etag: string } | undefined;
  app.get(url, { config: { takesAnyQuery }, schema: { hide: true } }, (request, reply) => {
    const moved = movedTo?.(request.originalUrl);
    if (moved !== undefined) return reply.redirect(moved, 308);
    if (file === undefined) {
      const bytes = readFileSync(path);
      file = { bytes, etag: etagOf(bytes) };
    }
    reply.headers(headers).header("etag", file.etag);
    if (request.headers["if-none-match"] === file.etag) return reply.code(304).send();
    return reply.type(type).send(file.bytes);
  });
}

/** A file of the folder `service/page`. */
export function ownPageFile(name: string): URL {
  return new URL(`../page/${name}`, import.meta.url);
}
