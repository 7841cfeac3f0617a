/**
 * Puts what is loaded together into one file, because a module takes Node half a millisecond to load: the library has some 300, each
 * thread 130, the service 430.
 *
 * `dist/library.js` has the modules that `dist/index.js` loads, but for those of `main.js`. Their files stay, and export what
 * `library.js` has: every importer of one of them, such as the service, gets the same module.
 *
 * `dist/cli/main.js` and what it imports stay files of their own, and the others import those, so that a process has each of
 * its modules once: a `PerigeeError` of a command is that of `main.js`. `run.js` has what is neither there nor in the library. What is
 * imported when it is needed stays where it is. A thread shares nothing with the others.
 *
 * The service has three more files, each of modules that are only loaded together: `dist/server.js` of what nobody else
 * loads, `dist/clusters.js` of what `perigee cluster` loads too, `dist/kinds.js` of what `perigee satellites` loads as well. What a
 * third command, or another entry point of the package, loads stays in files of its own: it would load the server with it.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Metafile, type Plugin } from "esbuild";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const MAIN = "cli/main.js";
const RUN = "cli/run/run.js";
const LIBRARY = "library.js";
const SERVICE = "service/perigee_service.js";
const CLUSTER = "cli/satellites/cluster.js";
const SATELLITES = "cli/satellites/satellites.js";
/** Loads nothing but the service. */
const SERVE = "cli/serve.js";
/** What a built-in satellite loads when it runs: only where the catalogue has been loaded. */
const SATELLITE_RUN = /^satellites\/builtin\/\w+\/run\.js$/;
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
const groups = await serviceGroups();
for (const [thread, file] of Object.entries(THREADS)) await bundle(thread, () => false, file);
/** Modules whose files already export what a file of several has. */
const moved = new Set<string>();
await bundleTogether(
  LIBRARY,
  [...(await importedBy("index.js"))].filter((path) => !kept.has(path)),
);
await bundle(RUN, (path) => kept.has(path) || path === LIBRARY);
for (const [file, modules] of groups) await bundleTogether(file, modules);

/** A module and all that it imports at once, and what those do, as paths in `dist`. */
async function importedBy(entry: string): Promise<Set<string>> {
  return reachedFrom(entry, await graphOf([entry]));
}

async function graphOf(entries: readonly string[]): Promise<Metafile> {
  const found = await build({
    ...settings,
    entryPoints: [...entries],
    write: false,
    metafile: true,
    outdir: ".",
  });
  return found.metafile;
}

function reachedFrom(entry: string, { inputs }: Metafile): Set<string> {
  const reached = new Set([entry]);
  for (const path of reached) {
    for (const { path: next, kind, external } of inputs[path]?.imports ?? [])
      if (kind === "import-statement" && external !== true) reached.add(next);
  }
  return reached;
}

/** The files of the service with their modules; what a file imports is in it, in one before it, or in files of its own. */
async function serviceGroups(): Promise<readonly (readonly [file: string, modules: readonly string[]])[]> {
  const { exports } = JSON.parse(readFileSync(resolve(dist, "../package.json"), "utf8")) as {
    exports: Record<string, { readonly default: string } | string>;
  };
  const doors = Object.values(exports).flatMap((door) => (typeof door === "string" ? [] : [door.default]));
  const addresses = doors.map((path) => relative(dist, resolve(dist, "..", path)));
  const graph = await graphOf([MAIN, ...addresses]);
  const later = Object.values(graph.inputs).flatMap(({ imports }) =>
    imports.filter((each) => each.kind === "dynamic-import"),
  );
  const entries = new Set([MAIN, ...addresses, ...later.map(({ path }) => path)]);
  const usersOf = new Map<string, string[]>([...reachedFrom(SERVICE, graph)].map((path) => [path, []]));
  for (const entry of entries) {
    const reached = reachedFrom(entry, graph);
    if (entry === SERVE || reached.has(SERVICE)) continue; // loads the server in any case
    for (const path of reached) usersOf.get(path)?.push(entry);
  }
  const usedBy = (isOne: (users: readonly string[]) => boolean): readonly string[] =>
    [...usersOf].filter(([, users]) => isOne(users)).map(([path]) => path);
  const isOfKinds = (user: string): boolean =>
    user === CLUSTER || user === SATELLITES || SATELLITE_RUN.test(user);
  return [
    ["kinds.js", usedBy((users) => users.includes(SATELLITES) && users.every(isOfKinds))],
    ["clusters.js", usedBy((users) => users.length === 1 && users[0] === CLUSTER)],
    ["server.js", usedBy((users) => users.length === 0)],
  ];
}

async function bundle(
  entry: string,
  isOther: (path: string) => boolean,
  outfile: string = entry,
): Promise<void> {
  await build({
    ...settings,
    entryPoints: [entry],
    outfile,
    allowOverwrite: true,
    plugins: [asFilesOf(outfile, isOther)],
  });
}

/** One file of `modules`, and in the place of each a file that exports its names. */
async function bundleTogether(outfile: string, modules: readonly string[]): Promise<void> {
  const names = await exportsOf(modules);
  const contents = modules
    .flatMap((path, index) => {
      const own = names[index] ?? [];
      const list = own.map((name) => `${name} as m${index}_${name}`).join(", ");
      return own.length === 0 ? [`import "./${path}";`] : [`export { ${list} } from "./${path}";`];
    })
    .join("\n");
  const own = new Set(modules);
  const isOther = (path: string): boolean => !own.has(path) && !moved.has(path);
  await build({
    ...settings,
    stdin: { contents, resolveDir: dist },
    outfile,
    plugins: [asFilesOf(outfile, isOther)],
  });
  for (const [index, path] of modules.entries()) {
    const list = (names[index] ?? []).map((name) => `m${index}_${name} as ${name}`).join(", ");
    const from = relativeTo(dirname(resolve(dist, path)), resolve(dist, outfile));
    writeFileSync(resolve(dist, path), `export { ${list} } from ${JSON.stringify(from)};\n`);
    moved.add(path);
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

/** Leaves others and what is imported later outside, and lets each module know where it was. */
function asFilesOf(outfile: string, isOther: (path: string) => boolean): Plugin {
  const folder = dirname(resolve(dist, outfile));
  return {
    name: "perigee",
    setup(builder) {
      builder.onResolve({ filter: /^\./ }, ({ path, resolveDir, kind }) => {
        const file = resolve(resolveDir, path);
        const isOutside = kind === "dynamic-import" || isOther(relative(dist, file));
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
