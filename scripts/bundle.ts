/**
 * Puts what is loaded together into one file: the command `run`, and each thread. A module takes Node half a millisecond to load,
 * and `run` has some 300, its threads 130 more.
 *
 * `dist/cli/main.js` and what it imports stay files of their own, and `run.js` imports those, so that a process has each of
 * its modules once: a `PerigeeError` of the command is that of `main.js`. What is imported when it is needed stays where it is.
 * A thread shares nothing with the others.
 *
 * `dist/library.js` has the modules that `dist/index.js` loads, but for those of `main.js`. Their files stay, and export what
 * `library.js` has: every importer of one of them, such as the service, gets the same module.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Metafile, type Plugin } from "esbuild";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const MAIN = "cli/main.js";
const RUN = "cli/run/run.js";
const LIBRARY = "library.js";
/** Each thread, and where its file is looked for (src/built_files.ts). */
const THREADS: Readonly<Record<string, string>> = {
  "shard/worker.js": "files/measuring_thread.mjs",
  "store/sqlite_worker.js": "files/store_thread.mjs",
  "store/postgres/postgres_worker.js": "files/postgres_thread.mjs",
  "store/answers/answers_worker.js": "files/answers_thread.mjs",
  "spend/worker.js": "files/audit_thread.mjs",
  "cli/watchdog_worker.js": "cli/watchdog_worker.js",
};

const settings = {
  absWorkingDir: dist,
  bundle: true,
  format: "esm",
  platform: "node",
  packages: "external",
  minifyWhitespace: true, // a quarter of their bytes when packed
  lineLimit: 500, // Node prints the line of an error that nobody catches
} as const;

const kept = await importedBy(MAIN);
await bundle(RUN, kept);
for (const [thread, file] of Object.entries(THREADS)) await bundle(thread, new Set(), file);
await bundleLibrary([...(await importedBy("index.js"))].filter((path) => !kept.has(path)));

/** A module and all that it imports at once, and what those do, as paths in `dist`. */
async function importedBy(entry: string): Promise<Set<string>> {
  const found = await build({ ...settings, entryPoints: [entry], write: false, metafile: true, outdir: "." });
  return reachedFrom(entry, found.metafile);
}

function reachedFrom(entry: string, { inputs }: Metafile): Set<string> {
  const reached = new Set([entry]);
  for (const path of reached) {
    for (const { path: next, kind, external } of inputs[path]?.imports ?? [])
      if (kind === "import-statement" && external !== true) reached.add(next);
  }
  return reached;
}

async function bundle(entry: string, others: ReadonlySet<string>, outfile: string = entry): Promise<void> {
  await build({
    ...settings,
    entryPoints: [entry],
    outfile,
    allowOverwrite: true,
    plugins: [asFilesOf(outfile, others)],
  });
}

/** One file of `modules`, and in the place of each a file that exports its names. */
async function bundleLibrary(modules: readonly string[]): Promise<void> {
  const names = await exportsOf(modules);
  const contents = modules
    .flatMap((path, index) => {
      const own = names[index] ?? [];
      const list = own.map((name) => `${name} as m${index}_${name}`).join(", ");
      return own.length === 0 ? [`import "./${path}";`] : [`export { ${list} } from "./${path}";`];
    })
    .join("\n");
  await build({
    ...settings,
    stdin: { contents, resolveDir: dist },
    outfile: LIBRARY,
    plugins: [asFilesOf(LIBRARY, kept)],
  });
  for (const [index, path] of modules.entries()) {
    const list = (names[index] ?? []).map((name) => `m${index}_${name} as ${name}`).join(", ");
    const from = relativeTo(dirname(resolve(dist, path)), resolve(dist, LIBRARY));
    writeFileSync(resolve(dist, path), `export { ${list} } from ${JSON.stringify(from)};\n`);
  }
}

/** The names that each module exports. */
async function exportsOf(modules: readonly string[]): Promise<readonly (readonly string[])[]> {
  const { metafile } = await build({
    absWorkingDir: dist,
    format: "esm",
    entryPoints: [...modules],
    outdir: ".",
    write: false,
    metafile: true,
  });
  const found = new Map(Object.values(metafile.outputs).map((out) => [out.entryPoint, out.exports]));
  return modules.map((path) => found.get(path) ?? []);
}

/** Leaves `others` and what is imported later outside, and lets each module know where it was. */
function asFilesOf(outfile: string, others: ReadonlySet<string>): Plugin {
  const folder = dirname(resolve(dist, outfile));
  return {
    name: "perigee",
    setup(builder) {
      builder.onResolve({ filter: /^\./ }, ({ path, resolveDir, kind }) => {
        const file = resolve(resolveDir, path);
        const isOutside = kind === "dynamic-import" || others.has(relative(dist, file));
        return isOutside ? { path: relativeTo(folder, file), external: true } : undefined;
      });
      // Bundlers of users must find import.meta.url as it is; the library's modules only look for packages and dist/files from there.
      if (outfile === LIBRARY) return;
      builder.onLoad({ filter: /\.js$/ }, ({ path }) => ({
        contents: readFileSync(path, "utf8").replaceAll(
          "import.meta.url",
          `new URL(${JSON.stringify(relativeTo(folder, path))}, import.meta.url).href`,
        ),
        loader: "js",
      }));
    },
  };
}

function relativeTo(folder: string, file: string): string {
  const path = relative(folder, file).replaceAll("\\", "/");
  return path.startsWith(".") ? path : `./${path}`;
}
