/**
 * Where the files are that are not imported: threads and token tables. The build puts them into `dist/files/`.
 *
 *   installed     beside this module: dist/files/
 *   from source   dist/files/ of the tree: a thread of Node 20 cannot load TypeScript
 *   in a bundle   perigee-files/ beside the bundle (a copy of dist/files/), or in the folder of the program that was started;
 *                 else dist/files/ of the package where Node finds it
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { PerigeeError } from "./errors.ts";

/** Their folder beside a bundle. */
const BUNDLED = "./perigee-files/";

/** The address of a file such as `measuring_thread.mjs`. Throws `usage` if it is nowhere. */
export function builtFile(path: string): URL {
  for (const folder of folders()) {
    const url = new URL(path, folder);
    if (existsSync(fileURLToPath(url))) return url;
  }
  throw new PerigeeError(
    "usage",
    `${path} of perigee is missing: in a source tree, run "npm run build"; in a bundle, copy node_modules/perigee/dist/files to perigee-files beside the bundle`,
  );
}

function* folders(): Generator<URL> {
  // Undefined in a bundle of CommonJS, and in one of webpack the path of the build; a name of its own, so that webpack takes it for no asset.
  const own = import.meta.url as string | undefined;
  if (own?.endsWith(".ts")) yield new URL("../dist/files/", own);
  else if (own !== undefined) yield new URL("./files/", own);
  const programs = [own, typeof __filename === "string" ? pathToFileURL(__filename).href : undefined];
  if (process.argv[1] !== undefined) programs.push(pathToFileURL(process.argv[1]).href);
  for (const program of programs) if (program !== undefined) yield new URL(BUNDLED, program);
  for (const program of programs) {
    const installed = program === undefined ? undefined : installedFor(program);
    if (installed !== undefined) yield installed;
  }
}

function installedFor(program: string): URL | undefined {
  try {
    return new URL("./dist/files/", pathToFileURL(createRequire(program).resolve("perigee/package.json")));
  } catch {
    return undefined;
  }
}
