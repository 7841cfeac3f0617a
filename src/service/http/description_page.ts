/**
 * The description as a page at `/docs`: Swagger UI over `/openapi.json`, light or dark as the reader's system asks for. The only import
 * of @fastify/swagger-ui, of which only the files for browsers are used.
 *
 * Its plugin is not registered: it writes the page's settings into scripts and serves more files, and here plain files have a policy
 * under which no inline script runs. A key that is entered stays in the page until it is closed.
 *
 * To leave: `page/api.js` starts it, `page/api.css` changes some of its colours.
 */
import { createRequire } from "node:module";
import type { FastifyInstance } from "./fastify.ts";
import {
  HTML,
  OWN_FILES_ONLY,
  ownPageFile,
  type PageFile,
  pageHeaders,
  registerPageFile,
  SCRIPT,
  STYLE,
} from "./page_files.ts";

const require = createRequire(import.meta.url);

const FILES: readonly PageFile[] = [
  { url: "/docs", path: ownPageFile("api.html"), type: HTML },
  { url: "/docs/api.js", path: ownPageFile("api.js"), type: SCRIPT },
  { url: "/docs/api.css", path: ownPageFile("api.css"), type: STYLE },
  {
    url: "/docs/swagger-ui.js",
    path: require.resolve("@fastify/swagger-ui/static/swagger-ui-bundle.js"),
    type: SCRIPT,
  },
  {
    url: "/docs/swagger-ui.css",
    path: require.resolve("@fastify/swagger-ui/static/swagger-ui.css"),
    type: STYLE,
  },
];

const HEADERS = pageHeaders(OWN_FILES_ONLY);

/** `/docs` and its files. Throws the system's error when Swagger UI is not installed. */
export function registerDescriptionPage(app: FastifyInstance): void {
  for (const file of FILES)
    registerPageFile(app, file, HEADERS, {
      movedTo: file.url === "/docs" ? withoutSlash : undefined,
      takesAnyQuery: false,
    });
}

/** The page names its files beside itself: with a slash at its end it would look for them one folder deeper. */
function withoutSlash(originalUrl: string): string | undefined {
  const path = originalUrl.split("?", 1)[0] ?? "";
  return path.endsWith("/") ? "../docs" : undefined;
}
