/**
 * The library in a bundle of one file, with dist/files beside it, in a folder without other packages: it measures, sends and prices.
 * The SQLite of Node 20 is native, so it stays a package.
 */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type BuildOptions, build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SQLITE = "@photostructure/sqlite";
const run = promisify(execFile);

const PROGRAM = `
import { createEngine } from "perigee";
async function main() {
  const engine = await createEngine({ dataDir: "state" });
  const items = ["one", "two", "three"].map((input) => ({ key: input, model: "openai:gpt-4o", input }));
  const lines = [];
  const work = engine.run(items, { sla: 60 });
  for await (const line of work) lines.push([line.key, line.output?.text ?? line.error]);
  const { cost } = await work.finished;
  console.log(JSON.stringify({ lines: lines.sort(), billedUsd: cost.billedUsd }));
  await engine.close();
}
main();
`;

let server: Server;
let folder: string;
beforeAll(async () => {
  server = createServer(async (request, response) => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as { messages: { content: string }[] };
    const text = body.messages.at(-1)?.content.toUpperCase();
    response.setHeader("content-type", "application/json");
    const message = { role: "assistant", content: text };
    const usage = { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100 };
    response.end(JSON.stringify({ model: "gpt-4o", choices: [{ message, finish_reason: "stop" }], usage }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  folder = mkdtempSync(join(tmpdir(), "perigee-bundle-"));
  writeFileSync(join(folder, "program.js"), PROGRAM);
});
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("a bundle of one file", () => {
  it.each([
    ["ESM", { format: "esm", outfile: "program.mjs" }],
    ["CommonJS", { format: "cjs", outfile: "program.cjs" }],
  ] as const)("of esbuild as %s runs items", async (_name, { format, outfile }) => {
    const place = cleanFolder(format);
    await esbuild({ format, outfile: join(place, outfile) });
    expect(await answersOf(place, outfile)).toEqual(ANSWERS);
  });

  it("of webpack runs items", async () => {
    const place = cleanFolder("webpack");
    await webpack(join(place, "program.cjs"));
    expect(await answersOf(place, "program.cjs")).toEqual(ANSWERS);
  }, 120_000);

  it("finds the files in the package that is installed", async () => {
    const place = cleanFolder("installed");
    rmSync(join(place, "perigee-files"), { recursive: true });
    symlinkSync(ROOT, join(place, "node_modules/perigee"));
    await esbuild({ format: "cjs", outfile: join(place, "program.cjs") });
    expect(await answersOf(place, "program.cjs")).toEqual(ANSWERS);
  });

  it("says which folder to copy when its files are missing", async () => {
    const place = cleanFolder("missing");
    rmSync(join(place, "perigee-files"), { recursive: true });
    await esbuild({ format: "esm", outfile: join(place, "program.mjs") });
    await expect(answersOf(place, "program.mjs")).rejects.toThrow(
      "copy node_modules/perigee/dist/files to perigee-files beside the bundle",
    );
  });
});

const REQUIRE = `import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);`;

const ANSWERS = {
  lines: [
    ["one", "ONE"],
    ["three", "THREE"],
    ["two", "TWO"],
  ],
  billedUsd: 0.0105,
};

/** With the files beside the bundle, and of packages only the SQLite of Node 20. */
function cleanFolder(name: string): string {
  const place = join(folder, name);
  mkdirSync(join(place, "node_modules/@photostructure"), { recursive: true });
  cpSync(join(ROOT, "dist/files"), join(place, "perigee-files"), { recursive: true });
  if (process.versions.node.startsWith("20."))
    symlinkSync(join(ROOT, "node_modules", SQLITE), join(place, "node_modules", SQLITE));
  return place;
}

async function esbuild(options: BuildOptions): Promise<void> {
  const { warnings } = await build({
    entryPoints: [join(folder, "program.js")],
    bundle: true,
    platform: "node",
    alias: { perigee: join(ROOT, "dist/index.js") },
    // Packages of CommonJS call require, which modules do not have.
    banner: options.format === "esm" ? { js: REQUIRE } : {},
    logLevel: "silent",
    logOverride: { "empty-import-meta": "silent" },
    ...options,
  });
  expect(warnings).toEqual([]);
}

/** In a process of its own, from a copy of the package that is deleted before the bundle runs: webpack writes paths of modules into it. */
async function webpack(file: string): Promise<void> {
  const place = join(folder, "webpack-build");
  const copy = join(place, "node_modules/perigee");
  cpSync(join(ROOT, "dist"), join(copy, "dist"), { recursive: true });
  cpSync(join(ROOT, "package.json"), join(copy, "package.json"));
  writeFileSync(join(place, "package.json"), '{"private":true}');
  writeFileSync(join(place, "program.js"), PROGRAM);
  writeFileSync(join(place, "build.cjs"), WEBPACK);
  const quiet = ["--no-save", "--prefer-offline", "--no-audit", "--no-fund"];
  await run("npm", ["install", "--prefix", join(place, "tool"), ...quiet, "webpack@5.112.2"]);
  await run(process.execPath, ["build.cjs", file, join(ROOT, "node_modules")], { cwd: place });
  rmSync(place, { recursive: true });
}

const WEBPACK = `
const { dirname, basename } = require("node:path");
const webpack = require("./tool/node_modules/webpack");
const [file, packages] = process.argv.slice(2);
webpack({
  mode: "development",
  devtool: false,
  target: "node",
  entry: "./program.js",
  output: { path: dirname(file), filename: basename(file) },
  plugins: [new webpack.optimize.LimitChunkCountPlugin({ maxChunks: 1 })],
  resolve: { modules: [__dirname + "/node_modules", packages] },
}, (error, stats) => {
  if (error || stats.hasErrors()) throw error ?? new Error(stats.toString("errors-only"));
});
`;

async function answersOf(place: string, file: string): Promise<unknown> {
  const { port } = server.address() as AddressInfo;
  const env = {
    PATH: process.env["PATH"],
    OPENAI_API_KEY: "k",
    OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
  };
  const { stdout } = await run(process.execPath, [file], { cwd: place, env });
  return JSON.parse(stdout);
}
