/**
 * The operator page at `/`: plain files of `service/page`, and the only import of uplot, whose charts they draw, and of csv-parse's
 * build for browsers, which reads a table that is submitted.
 *
 * The page holds no data: what it shows arrives with the key that its user types in, which never leaves the tab. The content security
 * policy lets nothing run, load or connect that is not of this server.
 *
 * To leave: only `page/chart.js` and `page/plot.js` draw with uplot, only `page/table.js` reads with csv-parse.
 */
import { createRequire } from "node:module";
import type { FastifyInstance } from "../http/fastify.ts";
import {
  HTML,
  OWN_FILES_ONLY,
  ownPageFile,
  type PageFile,
  pageHeaders,
  registerPageFile,
  SCRIPT,
  STYLE,
} from "../http/page_files.ts";

const require = createRequire(import.meta.url);

/** Modules of the page. */
const MODULES = [
  ...[
    "app",
    "batches",
    "chart",
    "code_panel",
    "day",
    "dom",
    "errors_of_task",
    "feed",
    "fleet",
    "format",
    "graph",
    "lanes",
  ],
  ...["outlook", "plot", "satellites", "service", "submit", "table", "task_panel", "tasks"],
];

const FILES: readonly PageFile[] = [
  { url: "/", path: ownPageFile("index.html"), type: HTML },
  { url: "/page/style.css", path: ownPageFile("style.css"), type: STYLE },
  ...MODULES.map((name) => ({ url: `/page/${name}.js`, path: ownPageFile(`${name}.js`), type: SCRIPT })),
  { url: "/page/uplot.js", path: require.resolve("uplot/dist/uPlot.iife.min.js"), type: SCRIPT },
  { url: "/page/csv_parse.js", path: require.resolve("csv-parse/browser/esm"), type: SCRIPT },
  { url: "/page/uplot.css", path: require.resolve("uplot/dist/uPlot.min.css"), type: STYLE },
];

const HEADERS = pageHeaders([...OWN_FILES_ONLY, "require-trusted-types-for 'script'"]);

export function registerPageRoutes(app: FastifyInstance): void {
  for (const file of FILES)
    registerPageFile(app, file, HEADERS, {
      movedTo: file.url === "/" ? folderAt : undefined,
      takesAnyQuery: true,
    });
}

/** Mounted at a path without a slash at its end, the page would look for its files beside that path: where they are. */
function folderAt(originalUrl: string): string | undefined {
  const path = originalUrl.split("?", 1)[0] ?? "";
  return path.endsWith("/") ? undefined : `./${path.slice(path.lastIndexOf("/") + 1)}/`;
}
