/**
 * What npm would publish, installed into an empty project: the command, the library and the types, without the sources.
 * What runs is run by this Node and by those whose binaries `PERIGEE_TEST_NODES` lists, with commas between them.
 */
import { execFile, execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** 6.3 MiB are the tables of the tokenizers; both bundles have 0.7, all else 1. */
const BYTES_MAX = 8.5 * 1024 * 1024;
const run = promisify(execFile);

interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly files: readonly { readonly path: string }[];
}

const nodes = nodesAtHand();
let project: string;
let packed: Packed;
let installed: string;

beforeAll(async () => {
  project = mkdtempSync(join(tmpdir(), "perigee-package-"));
  const words = ["pack", "--ignore-scripts", "--json", "--pack-destination", project];
  const { stdout } = await run("npm", words, { cwd: ROOT });
  [packed] = JSON.parse(stdout) as [Packed];
  writeFileSync(join(project, "package.json"), '{"name":"empty","private":true,"type":"module"}');
  const tarball = join(project, packed.filename);
  await run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", tarball], { cwd: project });
  installed = join(project, "node_modules/perigee");
}, 120_000);
afterAll(() => rmSync(project, { recursive: true, force: true }));

describe("the package", () => {
  it("holds what runs and what is read, no sources, no tests", () => {
    const paths = packed.files.map((file) => file.path);
    const roots = new Set(paths.map((path) => path.split("/")[0]));
    expect([...roots].sort()).toEqual([
      "CHANGELOG.md",
      "LICENSE",
      "README.md",
      "dist",
      "docs",
      "package.json",
    ]);
    const docs = new Set(paths.flatMap((path) => /^docs\/([^/]+)/.exec(path)?.[1] ?? []));
    expect([...docs].sort()).toEqual(["examples", "guide", "reference"]); // not what is about the sources
    const shipped = paths.filter((path) => !path.startsWith("docs/examples/")); // the README links to these
    expect(shipped.filter((path) => /(^|\/)(src|test|bench|scripts)\/|(?<!\.d)\.ts$/.test(path))).toEqual([]);
    for (const name of readdirSync(join(ROOT, "src/service/page")))
      expect(paths).toContain(`dist/service/page/${name}`);
    expect(packed.size).toBeLessThan(BYTES_MAX);
    expect(statSync(join(project, packed.filename)).size).toBe(packed.size);
  });

  it("holds no path of the place where it was built", async () => {
    const { stdout } = await run("grep", ["-rlF", "--include=*.js", ROOT, join(installed, "dist")]).catch(
      (error: { code: number }) => {
        if (error.code === 1) return { stdout: "" }; // nothing found
        throw error;
      },
    );
    expect(stdout).toBe("");
  });

  it("has every file that its entry points name, with types", () => {
    const { exports, bin } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) as {
      exports: Record<string, string | { types: string; default: string }>;
      bin: Record<string, string>;
    };
    const named = Object.values(exports)
      .flatMap((door) => (typeof door === "string" ? [door] : [door.types, door.default]))
      .concat(Object.values(bin));
    expect(named.filter((path) => !existsSync(join(installed, path)))).toEqual([]);
  });

  it("has types that name only packages that are installed with it", () => {
    const { dependencies } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) as {
      dependencies: Record<string, string>;
    };
    const types = readdirSync(join(installed, "dist"), { recursive: true, encoding: "utf8" });
    const named = types
      .filter((path) => path.endsWith(".d.ts"))
      .flatMap((path) => {
        const text = readFileSync(join(installed, "dist", path), "utf8");
        return [...text.matchAll(/(?:from|import\()\s*"([^."][^"]*)"/g)].map(([, name = ""]) => name);
      });
    const packages = new Set(named.filter((name) => !name.startsWith("node:")).map(packageOf));
    expect(packages.size).toBeGreaterThan(0);
    expect([...packages].filter((name) => !Object.hasOwn(dependencies, name))).toEqual([]);
  });

  it("is found as a command by npx", async () => {
    const words = ["--no-install", "perigee", "--version"];
    const { stdout } = await run("npx", words, { cwd: project, env: bareEnv() });
    expect(stdout.trim()).toBe(
      (JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string }).version,
    );
  });
});

describe.each(nodes)("the package on Node %s", (version, node) => {
  it("runs a file from the command line, worker threads included, and says nothing else", async () => {
    writeFileSync(join(project, "in.jsonl"), requestLines(2_000));
    const out = `out-${version}.jsonl`;
    const command = [join("node_modules", ".bin", "perigee"), "run", "in.jsonl", "--out", out, "--json"];
    const ran = await run(node, command, { cwd: project, env: bareEnv() });
    expect(JSON.parse(ran.stdout)).toMatchObject({
      status: "completed",
      items: 2_000,
      counts: { completed: 2_000 },
    });
    expect(ran.stderr).not.toMatch(/warning/i);
    const answers = readFileSync(join(project, out), "utf8").trimEnd().split("\n");
    expect(new Set(answers.map((line) => (JSON.parse(line) as { key: string }).key)).size).toBe(2_000);
    expect(answers).toHaveLength(2_000);
    const again = await run(node, command, { cwd: project, env: bareEnv() });
    expect(JSON.parse(again.stdout)).toMatchObject({ status: "completed", counts: { completed: 2_000 } });
  });

  it("is imported by a module of its own kind, with all entry points", async () => {
    writeFileSync(
      join(project, "script.js"),
      `import { createEngine } from "perigee";
import { createPerigee } from "perigee/ai";
import { KNOWN_PROVIDERS } from "perigee/providers";
import { FakeClock } from "perigee/testing";
const engine = await createEngine({ dataDir: "state-${version}" });
const task = await engine.submit([{ model: "echo:x", input: "Hello" }]);
const { content } = await createPerigee(engine)("echo:x").doGenerate({ prompt: [{ role: "user", content: [{ type: "text", text: "Hi" }] }] });
console.log(content[0].text, task.objects[0].output.text, KNOWN_PROVIDERS.has("openai"), new FakeClock().nowMs());
await engine.close();
`,
    );
    const { stdout, stderr } = await run(node, ["script.js"], { cwd: project, env: bareEnv() });
    expect(stdout).toBe("Hi Hello true 0\n");
    expect(stderr).toBe("");
  });
});

describe("the package without optional dependencies", () => {
  const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    optionalDependencies: Record<string, string>;
  };
  let bare: string;
  beforeAll(async () => {
    bare = mkdtempSync(join(tmpdir(), "perigee-bare-"));
    // The lock file of the other project, made without leaving anything out, saves npm from finding the versions again.
    for (const name of ["package.json", "package-lock.json", packed.filename])
      copyFileSync(join(project, name), join(bare, name));
    writeFileSync(join(bare, "in.jsonl"), requestLines(10));
    const quiet = ["--omit=optional", "--prefer-offline", "--no-audit", "--no-fund"];
    await run("npm", ["ci", ...quiet], { cwd: bare });
  }, 120_000);
  afterAll(() => rmSync(bare, { recursive: true, force: true }));

  it("is installed by npm ci without the SQLite of Node 20", () => {
    expect(optionalDependencies).toEqual({ "@photostructure/sqlite": expect.any(String) });
    expect(existsSync(join(bare, "node_modules/@photostructure"))).toBe(false);
    expect(existsSync(join(bare, "node_modules/perigee"))).toBe(true);
  });

  it.each(nodes)("on Node %s, runs a file or says which package to install", async (version, node) => {
    const words = ["node_modules/.bin/perigee", "run", "in.jsonl", "--out", `out-${version}.jsonl`];
    const ran = await run(node, words, { cwd: bare, env: bareEnv() }).catch(
      (error: { readonly code: number; readonly stderr: string }) => error,
    );
    if (!version.startsWith("v20.")) {
      expect(
        readFileSync(join(bare, `out-${version}.jsonl`), "utf8")
          .trimEnd()
          .split("\n"),
      ).toHaveLength(10);
      return;
    }
    const name = `@photostructure/sqlite@${optionalDependencies["@photostructure/sqlite"]}`;
    expect(ran).toMatchObject({ code: 74 });
    expect(ran.stderr).toContain(`Node ${version.slice(1)} has no SQLite, and ${name} is not installed`);
    expect(ran.stderr).toContain(`run "npm install ${name}", or use Node 22.13 or later`);
  });
});

/** `@scope/name` or `name`, without the path in it. */
function packageOf(specifier: string): string {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}

function requestLines(count: number): string {
  const lines = Array.from({ length: count }, (_, index) =>
    JSON.stringify({
      key: `k${index}`,
      request: { model: "echo:x", contents: [{ parts: [{ text: `t${index}` }] }] },
    }),
  );
  return `${lines.join("\n")}\n`;
}

/** Version and binary of this Node and of those at hand; one that does not run is a failure, not left out. */
function nodesAtHand(): readonly (readonly [version: string, node: string])[] {
  const further = (process.env["PERIGEE_TEST_NODES"] ?? "").split(",").filter((path) => path !== "");
  return [process.execPath, ...further].map((node) => [
    execFileSync(node, ["--version"], { encoding: "utf8" }).trim(),
    node,
  ]);
}

function bareEnv(): NodeJS.ProcessEnv {
  return {
    PATH: process.env["PATH"],
    HOME: process.env["HOME"],
    XDG_STATE_HOME: process.env["XDG_STATE_HOME"],
    NO_COLOR: "1",
  };
}
