/**
 * Programs in TypeScript that tests start as processes, compiled once into one file without types.
 *
 * `node --import tsx` compiles at each start, and looks through all that the program loads: 1.75 s of CPU for a program with the AI
 * SDK and the build, 0.4 s compiled.
 */
import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { buildSync } from "esbuild";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/**
 * Writes the program at `path` into `folder` and returns the path of what `node` can run. `import.meta.url` stays that of the source.
 * `packages` are found from the folder: `perigee` is the build, others are those that it has itself.
 */
export function compiledProgram(path: string, folder: string, packages: readonly string[] = []): string {
  const outfile = join(folder, `${basename(path, ".ts")}.mjs`);
  buildSync({
    ...{ entryPoints: [path], outfile, bundle: true, packages: "external", logLevel: "error" },
    ...{ platform: "node", format: "esm", target: "node20", tsconfigRaw: {} },
    define: { "import.meta.url": JSON.stringify(pathToFileURL(path).href) },
  });
  for (const name of packages) {
    const link = join(folder, "node_modules", name);
    mkdirSync(dirname(link), { recursive: true });
    if (!existsSync(link)) symlinkSync(name === "perigee" ? ROOT : join(ROOT, "node_modules", name), link);
  }
  return outfile;
}
