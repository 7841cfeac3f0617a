/**
 * Which packages and modules a process loads, by a loader that writes the address of each: what only a service, a satellite or a
 * parser needs must not be loaded by `import "perigee"` or `perigee run`. Worker threads have the loader too.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";

const DIST = fileURLToPath(new URL("../../dist/", import.meta.url));
const LOADER = `
import { register, createRequire } from "node:module";
import { isMainThread } from "node:worker_threads";
const hooks = "export async function resolve(specifier, context, next) {" +
  "const found = await next(specifier, context); process._rawDebug('loaded ' + found.url); return found; }";
register("data:text/javascript," + encodeURIComponent(hooks));
const { cache } = createRequire(process.execPath);
process.on("exit", () => { for (const path of Object.keys(cache)) process._rawDebug("loaded file://" + path); });
`;

/** Servers, mail, documents, tables, YAML, metrics: each is for one kind of use. */
const HEAVY =
  /^(@?fastify\b.*|nodemailer|unpdf|mammoth|turndown|csv-parse|hyparquet.*|prom-client|yaml|bottleneck|standardwebhooks|uplot|@opentelemetry\/api|@aws-sdk\/.*|opendal|pg(-.*)?)$/;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-loaded-"));
  writeFileSync(join(folder, "loader.mjs"), LOADER);
  writeFileSync(
    join(folder, "in.jsonl"),
    '{"key":"a","request":{"model":"echo:x","contents":[{"parts":[{"text":"Hello"}]}]}}\n',
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("what an entry point of the package loads", () => {
  it.each([
    ["perigee", "index.js", []],
    ["perigee/ai", "ai/index.js", []],
    ["perigee/fleet", "fleet/index.js", []],
    ["perigee/providers", "providers/index.js", []],
    ["perigee/satellites", "satellites.js", ["zod"]],
    ["perigee/service", "service/index.js", []],
    ["perigee/testing", "testing/index.js", []],
  ])("%s", (_name, path, packages) => {
    const loaded = loadedBy(
      "--input-type=module",
      "--eval",
      `await import(${JSON.stringify(`file://${DIST}${path}`)})`,
    );
    expect(loaded.files).toContain(path);
    expect(loaded.packages).toEqual(packages);
    expect(loaded.files.filter((file) => /^satellites\/builtin\/[^/]+\/run\.js$/.test(file))).toEqual([]);
    if (path !== "satellites.js") expect(loaded.files.filter(isOfSatellites)).toEqual([]);
  });
});

describe("what the service loads", () => {
  it.each(["service/perigee_service.js", "fleet/fleet_worker.js"])("%s, in few files", (path) => {
    const { files } = loadedBy("--input-type=module", "--eval", `await import("file://${DIST}${path}")`);
    expect(files).toContain(path);
    expect(files.length).toBeLessThan(200); // each is half a millisecond
  });
});

describe("what a command loads", () => {
  it.each([
    ["run", ["run", "in.jsonl", "--out", "out.jsonl"]],
    ["quote", ["quote", "in.jsonl"]],
    ["status", ["status", "out.jsonl"]],
  ])("%s", (_name, words) => {
    const loaded = loadedBy(MAIN, ...words);
    expect(loaded.status).toBe(0);
    expect(loaded.packages).toContain("commander");
    expect(loaded.packages.filter((name) => HEAVY.test(name))).toEqual([]);
    expect(loaded.files.filter((file) => isOfSatellites(file) || file.startsWith("service/"))).toEqual([]);
    expect(loaded.files.filter(isOfFleet)).toEqual([]);
  });

  it("names every package that is heavy", () => {
    const { dependencies } = JSON.parse(readFileSync(join(DIST, "../package.json"), "utf8")) as {
      dependencies: object;
    };
    expect(Object.keys(dependencies).filter((name) => HEAVY.test(name)).length).toBeGreaterThan(10);
  });
});

/** The packages and the files of `dist` that a process of Node loads. */
function loadedBy(...words: readonly string[]): {
  readonly status: number | null;
  readonly packages: readonly string[];
  readonly files: readonly string[];
} {
  const { status, stderr } = spawnSync(process.execPath, ["--import", join(folder, "loader.mjs"), ...words], {
    cwd: folder,
    encoding: "utf8",
  });
  const addresses = [...stderr.matchAll(/^loaded file:\/\/(.*)$/gm)].map(([, path = ""]) => path);
  const names = addresses.flatMap((path) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
  const own = addresses.filter((path) => path.startsWith(DIST)).map((path) => path.slice(DIST.length));
  return { status, packages: [...new Set(names)].sort(), files: [...new Set(own)] };
}

function isOfSatellites(file: string): boolean {
  return file.startsWith("satellites") || file.startsWith("clusters/");
}

/** Several processes on PostgreSQL. */
function isOfFleet(file: string): boolean {
  return /^(fleet|store\/(postgres|objects))\/|^files\/postgres/.test(file);
}
