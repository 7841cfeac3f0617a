/**
 * Tests that run again at each change, without a build before: `npm run test:watch [-- FILTER...]`
 *
 * A thread cannot load TypeScript, so its file and the token tables are made here, and the threads' again whenever their sources
 * change. Tests of the command and of the package start `dist`: those still need `npm run build`.
 */
import { spawn } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { context, type Plugin } from "esbuild";
import "./build_ranks.ts";

const root = fileURLToPath(new URL("../", import.meta.url));

/** Where a module would have been in `dist`: some look for files beside them. */
const inSource: Plugin = {
  name: "perigee",
  setup(builder) {
    builder.onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path }) => {
      const { readFile } = await import("node:fs/promises");
      const text = await readFile(path, "utf8");
      return {
        contents: text.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path).href)),
        loader: "ts",
        resolveDir: dirname(path),
      };
    });
  },
};

const threads = await context({
  absWorkingDir: root,
  entryPoints: [
    { in: "src/shard/worker.ts", out: "measuring_thread" },
    { in: "src/store/sqlite_worker.ts", out: "store_thread" },
    { in: "src/store/postgres/postgres_worker.ts", out: "postgres_thread" },
    { in: "src/store/answers/answers_worker.ts", out: "answers_thread" },
    { in: "src/spend/worker.ts", out: "audit_thread" },
  ],
  outdir: "dist/files",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  format: "esm",
  platform: "node",
  packages: "external",
  plugins: [inSource],
});
await threads.rebuild();
await threads.watch();
const vitest = spawn(process.execPath, ["node_modules/vitest/vitest.mjs", ...process.argv.slice(2)], {
  cwd: root,
  stdio: "inherit",
});
vitest.on("exit", (code) => {
  void threads.dispose();
  process.exitCode = code ?? 1;
});
