/**
 * How large and how tangled the code is: `npm run build && npm run measure [-- --json]`
 *
 * The figures of `src` are read from its text, without comments and literals. The functions that an item passes are counted by V8
 * (precise coverage): those of `dist` that the main thread calls at least 0.9 times an item, for 2,000 items, against a server on
 * loopback. Each walk (measure_walk.ts) and each measurement of loading has its own process.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { blockAt, classesIn, codeOf, FIELDS_MAX, membersOf } from "./class_fields.ts";
import type { Walk, WalkFigures } from "./measure_walk.ts";

const root = fileURLToPath(new URL("../", import.meta.url));
const source = join(root, "src");
const LOADS = 9;

interface SourceText {
  readonly path: string;
  readonly text: string;
  /** The same length, with spaces in place of comments and of the insides of literals. */
  readonly code: string;
}

type Row = readonly [measure: string, figure: string];

const files = readSources();
const rows: readonly Row[] = [
  ["lines in src / files", `${sum(files.map(({ text }) => text.split("\n").length - 1))} / ${files.length}`],
  ...walks(),
  [
    "exported type or class names defined twice (with local ones)",
    `${twice(/export /)} (${twice(/(?:export )?/)})`,
  ],
  ["largest flat folder; depth of layers inside a folder", `${largestFolder()}; ${deepest()}`],
  ["interfaces of parts; largest constructor bag", `${partsInterfaces().length}; ${largestBag()}`],
  [`classes with more than ${FIELDS_MAX} fields`, String(largeClasses())],
  ...loading(),
];

if (process.argv.includes("--json")) console.log(JSON.stringify(Object.fromEntries(rows), undefined, 2));
else for (const [measure, figure] of rows) console.log(`${measure.padEnd(64)} ${figure}`);

function walks(): Row[] {
  const names: Readonly<Record<Walk, string>> = {
    line: "functions / files of a line of a file",
    sla: "functions / files of a posted item with sla",
    immediate: "functions / files of a posted item without sla",
    execution: "functions / files of a batch-inference execution",
  };
  return (Object.keys(names) as Walk[]).map((walk) => {
    const printed = execFileSync(
      process.execPath,
      ["--import", "tsx", join(root, "scripts/measure_walk.ts"), walk],
      { encoding: "utf8", cwd: root },
    );
    const { functions, files: touched } = JSON.parse(printed.split("\n").at(-2) ?? "") as WalkFigures;
    return [names[walk], `${functions} / ${touched}`];
  });
}

/** Names of types and classes whose definition follows `prefix` in more than one file. */
function twice(prefix: RegExp): number {
  const definition = new RegExp(
    `^${prefix.source}(?:declare )?(?:abstract )?(?:class|interface|type|enum) (\\w+)`,
    "gm",
  );
  const counts = new Map<string, Set<string>>();
  for (const { path, code } of files) {
    for (const [, name = ""] of code.matchAll(definition))
      counts.set(name, (counts.get(name) ?? new Set()).add(path));
  }
  return [...counts.values()].filter((paths) => paths.size > 1).length;
}

function largestFolder(): string {
  const counts = new Map<string, number>();
  for (const { path } of files) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  const [folder, count] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
  return `${count} files (${folder})`;
}

/** The longest chain of imports within one folder of `src`, its sub-folders included. */
function deepest(): string {
  const imports = new Map(files.map((file) => [file.path, importsOf(file)]));
  const known = new Map<string, number>();
  const depth = (path: string): number => {
    const found = known.get(path);
    if (found !== undefined) return found;
    known.set(path, 0); // there are no circles
    const folder = path.split("/")[0];
    const below = (imports.get(path) ?? []).filter(
      (other) => other.split("/")[0] === folder && other !== path,
    );
    const result = 1 + Math.max(0, ...below.map(depth));
    known.set(path, result);
    return result;
  };
  const [path = "", levels] = files
    .filter(({ path: each }) => each.includes("/"))
    .map(({ path: each }) => [each, depth(each)] as const)
    .sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
  return `${levels} (${path.split("/")[0]})`;
}

function importsOf({ path, text }: SourceText): string[] {
  const specifiers = [...text.matchAll(/(?:^|\n)(?:import|export)[^;"]*from "(\.[^"]+)"/g)];
  return specifiers.map(([, specifier = ""]) => relative(source, resolve(source, dirname(path), specifier)));
}

function partsInterfaces(): string[] {
  return files.flatMap(({ code }) =>
    [...code.matchAll(/^(?:export )?interface (\w*Parts)\b/gm)].map(([, name = ""]) => name),
  );
}

/** The members of the largest interface that a constructor takes as one object; what callers of the library set is data. */
function largestBag(): string {
  const members = new Map<string, number>();
  for (const { code } of files) {
    for (const match of code.matchAll(/^(?:export )?interface (\w+)[^{]*\{/gm)) {
      const body = blockAt(code, match.index + match[0].length - 1);
      members.set(match[1] ?? "", membersOf(body, /^\s*(?:readonly )?\w+\??(?:: |\()/));
    }
  }
  const taken = new Set<string>();
  for (const { code } of files) {
    for (const [, list = ""] of code.matchAll(/constructor\(([^)]*)\)/g))
      for (const [, type = ""] of list.matchAll(/:\s*(\w+)/g)) taken.add(type);
  }
  const [name, count] = [...members]
    .filter(([each]) => taken.has(each) && each !== "RunOptions" && /Parts$|Options$|Deps$/.test(each))
    .sort((a, b) => b[1] - a[1])[0] ?? ["none", 0];
  return `${count} members (${name})`;
}

function largeClasses(): number {
  return files.flatMap(({ code }) => classesIn(code)).filter(({ fields }) => fields > FIELDS_MAX).length;
}

/** What `import "perigee"` loads, and its time beside that of `import "undici"`. */
function loading(): Row[] {
  const library = `file://${join(root, "dist/index.js")}`;
  const times = (specifier: string): number => {
    const program = `const t = performance.now(); await import(${JSON.stringify(specifier)}); console.log(performance.now() - t);`;
    const run = (): number =>
      Number(
        execFileSync(process.execPath, ["--input-type=module", "-e", program], {
          encoding: "utf8",
          cwd: root,
        }),
      );
    return Array.from({ length: LOADS }, run).sort((a, b) => a - b)[LOADS >> 1] as number;
  };
  const packages = loadedPackages(library);
  const [perigeeMs, undiciMs] = [times(library), times("undici")];
  return [
    ['packages loaded by import "perigee"', `${packages.length}: ${packages.join(", ")}`],
    [
      'its time against import "undici"',
      `${(perigeeMs / undiciMs).toFixed(2)}x (${perigeeMs.toFixed(0)} and ${undiciMs.toFixed(0)} ms)`,
    ],
  ];
}

/** Packages of which `import` loads a module, by a loader that says what it resolves. */
function loadedPackages(library: string): string[] {
  const hooks = `export async function resolve(specifier, context, next) {
    const found = await next(specifier, context);
    process._rawDebug(found.url);
    return found;
  }`;
  const program = `import { register } from "node:module";
    register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hooks)}`)});
    await import(${JSON.stringify(library)});`;
  const { stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
    encoding: "utf8",
    cwd: root,
  });
  const names = [...stderr.matchAll(/node_modules\/((?:@[\w.-]+\/)?[\w.-]+)\//g)].map(
    ([, name = ""]) => name,
  );
  return [...new Set(names)].sort();
}

function readSources(): SourceText[] {
  return readdirSync(source, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => {
      const text = readFileSync(join(source, path), "utf8");
      return { path, text, code: codeOf(text) };
    });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
