/**
 * The operator page at `/`: plain files beside this one, and the only import of uplot, whose chart they draw.
 *
 * The files are read once and are the same from the sources and from `dist`. The page holds no data: what it shows arrives
 * from `/v0/operator/events` with the key that its user types in, which never leaves the tab. The content security
 * policy lets nothing run, load or connect that is not of this server.
 *
 * To leave: only `page/chart.js` draws with uplot.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { etagOf } from "../http/etag.ts";
import type { FastifyInstance } from "../http/fastify.ts";

const require = createRequire(import.meta.url);
const SCRIPT = "text/javascript; charset=utf-8";
const STYLE = "text/css; charset=utf-8";

/** Every file of the page: its address, where it is, and what it is. */
const FILES: readonly { readonly url: string; readonly path: string | URL; readonly type: string }[] = [
  { url: "/", path: own("index.html"), type: "text/html; charset=utf-8" },
  { url: "/page/style.css", path: own("style.css"), type: STYLE },
  ...["app", "batches", "chart", "dom", "feed", "format", "graph", "lanes", "satellites", "tasks"].map(
    (name) => ({
      url: `/page/${name}.js`,
      path: own(`${name}.js`),
      type: SCRIPT,
    }),
  ),
  { url: "/page/uplot.js", path: require.resolve("uplot/dist/uPlot.iife.min.js"), type: SCRIPT },
  { url: "/page/uplot.css", path: require.resolve("uplot/dist/uPlot.min.css"), type: STYLE },
];

const HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join("; "),
  "cache-control": "no-cache",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** Throws the system's error when a file of the page is missing. */
export function registerPageRoutes(app: FastifyInstance): void {
  for (const { url, path, type } of FILES) {
    const bytes = readFileSync(path);
    const etag = etagOf(bytes);
    app.get(url, { config: { takesAnyQuery: true }, schema: { hide: true } }, (request, reply) => {
      const folder = folderAt(request.originalUrl);
      if (url === "/" && folder !== undefined) return reply.redirect(folder, 308);
      reply.headers(HEADERS).header("etag", etag);
      if (request.headers["if-none-match"] === etag) return reply.code(304).send();
      return reply.type(type).send(bytes);
    });
  }
}

/** Mounted at a path without a slash at its end, the page would look for its files beside that path: where they are. */
function folderAt(originalUrl: string): string | undefined {
  const path = originalUrl.split("?", 1)[0] ?? "";
  return path.endsWith("/") ? undefined : `./${path.slice(path.lastIndexOf("/") + 1)}/`;
}

function own(name: string): URL {
  return new URL(`../page/${name}`, import.meta.url);
}
