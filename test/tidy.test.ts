/**
 * The rules of the source tree, as a test: floors, circles, imports of packages, dead files, lengths, time and chance, names.
 * Function length (60 lines) is kept by the linter, see biome.json.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { classesIn, codeOf, FIELDS_MAX } from "../scripts/class_fields.ts";
import { LONG_FILES } from "./long_files.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const source = join(root, "src");

/** A room is a folder of src or a file in it; a room imports only from lower floors and from itself. */
const FLOORS: Readonly<Record<string, number>> = {
  "built_files.ts": 1,
  "clock.ts": 1,
  "debug.ts": 2,
  "large_bytes.ts": 1,
  "errors.ts": 0,
  "disk.ts": 1,
  "keyed_mutex.ts": 1,
  "nearest.ts": 1,
  "semaphore.ts": 1,
  "polled.ts": 2,
  "release.ts": 2,
  "safe_pattern.ts": 1,
  "slow_schemas.ts": 1,
  "schema.ts": 2,
  "json_schema.ts": 3,
  tokens: 2,
  work: 2,
  s3: 2,
  jsonl: 3,
  price: 3,
  limits: 3,
  queue: 3,
  providers: 3,
  store: 3,
  shard: 4,
  tables: 4,
  dispatch: 4,
  log: 4,
  egress: 5,
  spend: 5,
  engine: 5,
  "index.ts": 6,
  ai: 6,
  tasks: 6,
  jobs: 6,
  testing: 6,
  satellites: 7,
  simulation: 7,
  clusters: 8,
  "satellites.ts": 9,
  service: 9,
  fleet: 10,
  cli: 11,
};

/** The sub-folders of a folder, lowest first; each imports from those before it, and those of one row do not know each other. */
const SUB_FOLDERS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  cli: [["usage", "setup", "display", "fleet"], ["tables"], ["run", "satellites"], ["batches"]],
  clusters: [["declaration"], ["runs"]],
  jsonl: [["parts"]],
  price: [["shared"]],
  dispatch: [["inserts"]],
  limits: [["hidden"], ["shared"]],
  providers: [["endpoints"], ["codecs"], ["batches"], ["deferred"], ["streams"]],
  queue: [["plan", "prefixes", "failures"]],
  shard: [["answers", "schemas"]],
  satellites: [["sdk"], ["secrets"], ["orbit"], ["executions", "kinds"], ["builtin"]],
  engine: [
    ["config", "media", "arrivals"],
    ["journal"],
    ["learnt", "schemas"],
    ["limits"],
    ["items"],
    ["failover", "offers", "prefixes"],
    ["batches"],
    ["shown"],
    ["lanes"],
    ["files"],
    ["answers"],
    ["reopening"],
    ["plans"],
    ["receipts"],
    ["runs"],
    ["posted"],
    ["submissions"],
  ],
  fleet: [["hops"], ["shards", "shared"]],
  spend: [["formats"]],
  testing: [["simulated"]],
  service: [
    ["shapes"],
    ["http"],
    ["files", "satellites", "webhooks"],
    ["infer"],
    ["front", "openai", "operate"],
  ],
  store: [["packed"], ["folder"], ["postgres"], ["objects"], ["answers", "audit", "keys"]],
  tasks: [["shapes"], ["usage", "files"], ["posted"], ["lots"], ["large"]],
  "satellites/builtin": [
    ["exchange"],
    ["files"],
    [
      "batch_inference",
      "call_webhook",
      "forward_logs",
      "get_files",
      "move_file",
      "parse_with_docling",
      "send_alert",
      "send_email",
    ],
  ],
};

/** The most files of a folder. */
const FOLDER_FILES_MAX = 25;

/** The one file that may import a runtime package. */
const DOORS: Readonly<Record<string, string>> = {
  "@standard-schema/spec": "satellites/sdk/satellite.ts",
  bottleneck: "jobs/destinations.ts",
  ajv: "json_schema.ts",
  "ajv-formats": "json_schema.ts",
  "csv-parse": "satellites/builtin/parse_with_docling/parse_csv.ts",
  mammoth: "satellites/builtin/parse_with_docling/parse_docx.ts",
  nodemailer: "satellites/builtin/send_email/smtp.ts",
  "@aws-sdk/client-s3": "s3/s3_client.ts",
  opendal: "satellites/builtin/files/store_opendal.ts",
  turndown: "satellites/builtin/parse_with_docling/parse_html.ts",
  unpdf: "satellites/builtin/parse_with_docling/parse_pdf.ts",
  yaml: "clusters/declaration/yaml_declaration.ts",
  "@photostructure/sqlite": "store/sqlite_database.ts",
  pg: "store/postgres/pg_session.ts",
  "@pydantic/genai-prices": "price/base.ts",
  "@fastify/multipart": "service/http/fastify.ts",
  "@fastify/swagger": "service/http/fastify.ts",
  "@fastify/swagger-ui": "service/http/description_page.ts",
  "@opentelemetry/api": "service/operate/telemetry.ts",
  commander: "cli/main.ts",
  fastify: "service/http/fastify.ts",
  hyparquet: "tables/parquet_table.ts",
  "hyparquet-compressors": "tables/parquet_table.ts",
  "hyparquet-writer": "tables/parquet_file.ts",
  "fastify-type-provider-zod": "service/http/fastify.ts",
  "ipaddr.js": "egress/address.ts",
  // Imported only by fastify: its newest version needs a package for Node 22.
  "light-my-request": "",
  "openapi-types": "service/http/fastify.ts",
  "stream-json": "jsonl/array.ts",
  "prom-client": "service/operate/metrics.ts",
  standardwebhooks: "egress/webhook_signature.ts",
  undici: "dispatch/undici.ts",
  uplot: "service/operate/page.ts",
  uuid: "work/new_id.ts",
  zod: "schema.ts",
};

/** Files that something outside the import graph enters: entry points of the package, threads, the command. */
const ENTRIES = [
  "index.ts",
  "ai/index.ts",
  "fleet/index.ts",
  "providers/index.ts",
  "satellites.ts",
  "service/index.ts",
  "testing/index.ts",
  "cli/main.ts",
  "cli/watchdog_worker.ts",
  "shard/worker.ts",
  "spend/worker.ts",
  "satellites/builtin/parse_with_docling/parser_process.ts",
  "satellites/builtin/parse_with_docling/parser_watch.ts",
  "store/answers/answers_worker.ts",
  "store/postgres/postgres_worker.ts",
  "store/sqlite_worker.ts",
];

/** The most members of what a constructor takes as one object. */
const OPTIONS_MAX = 11;
/** Options that callers of the library set. */
const CALL_OPTIONS: readonly string[] = ["RunOptions"];

/** Classes with more fields than others; docs/decisions/0027-large-classes.md has the reason of each. */
const LARGE_CLASSES = [
  "BlockReader",
  "Budget",
  "ClusterRun",
  "FreshPosted",
  "ItemCall",
  "Lane",
  "LaneHealth",
  "LaneItems",
  "Lanes",
  "LogCommits",
  "Lot",
  "MeasuredColumns",
  "OpenGroup",
  "PostedItems",
  "PostedWork",
  "Replay",
  "Run",
  "RunState",
  "Shard",
  "JobEntry",
  "Totals",
  "Watch",
  "WindowBucket",
];

const LINES_MAX = 400;
const TEST_LINES_MAX = 500;

interface SourceFile {
  readonly path: string;
  readonly text: string;
  readonly room: string;
  readonly imports: readonly string[];
}

const files = readSources();

describe("the source tree", () => {
  it("has a floor for every room", () => {
    expect([...new Set(files.map((file) => file.room))].filter((room) => FLOORS[room] === undefined)).toEqual(
      [],
    );
  });

  it("imports point down the floors, and rooms on one floor do not know each other", () => {
    const wrong = files.flatMap((file) =>
      localImports(file)
        .filter((target) => roomOf(target) !== file.room && floorOf(roomOf(target)) >= floorOf(file.room))
        .map((target) => `${file.path} -> ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  it("imports between sub-folders of a folder in one order", () => {
    const folders = new Set(files.map((file) => dirname(file.path)).flatMap(withParents));
    const unlisted = [...folders].filter((folder) => {
      const parent = SUB_FOLDERS[dirname(folder)];
      return dirname(folder) !== "." && !parent?.flat().includes(basename(folder));
    });
    expect(unlisted).toEqual([]);
    const wrong = Object.entries(SUB_FOLDERS).flatMap(([folder, rows]) =>
      files.flatMap((file) =>
        localImports(file)
          .filter((target) => {
            const [from, to] = [childOf(folder, file.path), childOf(folder, target)];
            const row = (child: string): number => rows.findIndex((names) => names.includes(child));
            return from !== undefined && to !== undefined && from !== to && row(to) >= row(from);
          })
          .map((target) => `${file.path} -> ${target}`),
      ),
    );
    expect(wrong).toEqual([]);
  });

  it(`keeps folders at most ${FOLDER_FILES_MAX} files`, () => {
    const counts = new Map<string, number>();
    for (const { path } of files) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
    const crowded = [...counts].filter(([, count]) => count > FOLDER_FILES_MAX).map(([folder]) => folder);
    expect(crowded).toEqual([]);
  });

  it("has no circle of imports", () => {
    expect(findCircle()).toEqual([]);
  });

  it("imports each runtime package in only one file", () => {
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      dependencies: Record<string, string>;
      optionalDependencies: Record<string, string>;
      peerDependencies: Record<string, string>;
    };
    const { dependencies, optionalDependencies, peerDependencies } = manifest;
    const runtime = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies });
    const wrong = files.flatMap((file) =>
      file.imports
        .filter(
          (name) => !name.startsWith(".") && !name.startsWith("node:") && !builtinModules.includes(name),
        )
        .map((name) =>
          name
            .split("/")
            .slice(0, name.startsWith("@") ? 2 : 1)
            .join("/"),
        )
        .filter((name) => DOORS[name] !== file.path || !runtime.includes(name))
        .map((name) => `${file.path} -> ${name}`),
    );
    expect(wrong).toEqual([]);
    expect(runtime.filter((name) => DOORS[name] === undefined)).toEqual([]);
  });

  it("has no file that nothing imports", () => {
    const imported = new Set(files.flatMap(localImports));
    expect(
      files.map((file) => file.path).filter((path) => !imported.has(path) && !ENTRIES.includes(path)),
    ).toEqual([]);
  });

  it(`keeps files at most ${LINES_MAX} lines`, () => {
    const long = files.filter((file) => file.text.split("\n").length - 1 > LINES_MAX);
    expect(long.map((file) => file.path)).toEqual([]);
  });

  it(`keeps test files at most ${TEST_LINES_MAX} lines`, () => {
    const long = readTests().filter(({ text }) => text.split("\n").length - 1 > TEST_LINES_MAX);
    expect(long.map(({ path }) => path)).toEqual([]);
  });

  it("registers no hook while a module beside the tests loads: files that share a process load it once", () => {
    const wrong = readTests().filter(
      ({ path, text }) =>
        !["state_home.ts", "cpu_by_file.ts"].includes(path) && // they run before each file
        !path.endsWith(".test.ts") &&
        /^(before|after)(Each|All)\(/m.test(text),
    );
    expect(wrong.map(({ path }) => path)).toEqual([]);
  });

  it("names only test files that exist as those that run first", () => {
    expect(LONG_FILES.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  it(`keeps classes at most ${FIELDS_MAX} fields, but for those that a decision names`, () => {
    const large = files
      .flatMap((file) => classesIn(codeOf(file.text)))
      .filter(({ fields }) => fields > FIELDS_MAX)
      .map(({ name }) => name);
    expect(large.sort()).toEqual([...LARGE_CLASSES].sort());
    const decision = readFileSync(join(root, "docs/decisions/0027-large-classes.md"), "utf8");
    expect(LARGE_CLASSES.filter((name) => !decision.includes(`\`${name}\``))).toEqual([]);
  });

  it("exports each name of a type or class once", () => {
    const definition = /^export (?:declare )?(?:abstract )?(?:class|interface|type|enum) (\w+)/gm;
    const names = files.flatMap(({ text }) => [
      ...new Set([...text.matchAll(definition)].map(([, name]) => name)),
    ]);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it("takes time and chance only from clock.ts", () => {
    const door =
      /\b(Date\.now|performance\.now|setTimeout|setInterval|setImmediate|Math\.random|new Date\(\))/;
    const wrong = files.filter((file) => file.path !== "clock.ts" && door.test(withoutComments(file.text)));
    expect(wrong.map((file) => file.path)).toEqual([]);
  });

  it("names collaborators where they are used: no interface of parts, and options of few members", () => {
    const code = files.map(({ text }) => withoutComments(text));
    expect(code.flatMap((text) => text.match(/^(?:export )?interface \w*Parts\b/gm) ?? [])).toEqual([]);
    const taken = new Set(
      code
        .flatMap((text) => [...text.matchAll(/constructor\(([^)]*)\)/g)])
        .flatMap(([, list = ""]) => list.match(/\w+(?:Options|Deps)\b/g) ?? []),
    );
    const large = code
      .flatMap((text) => [...text.matchAll(/^(?:export )?interface (\w+)[^{]*\{\n(.*?)^\}/gms)])
      .filter(([, name = ""]) => taken.has(name) && !CALL_OPTIONS.includes(name))
      .filter(
        ([, , body = ""]) => (body.match(/^ {2}(?:readonly )?\w+\??(?:: |\()/gm) ?? []).length > OPTIONS_MAX,
      );
    expect(large.map(([, name]) => name)).toEqual([]);
  });

  it("has no dumping ground", () => {
    const dump = /(^|[/_.])(utils?|common|helpers?|types|lib|misc|constants)([/_.]|$)/;
    expect(files.map((file) => file.path).filter((path) => dump.test(path))).toEqual([]);
  });

  it("opens every file with a header that says what it is", () => {
    expect(files.filter((file) => !/^(#!.*\n)?\/\*\*/.test(file.text)).map((file) => file.path)).toEqual([]);
  });
});

it("names in the lock file every optional package of others, also those for other systems", () => {
  // npm leaves out of a lock file what its registry did not have that day, and `npm ci` refuses such a file.
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Readonly<Record<string, { readonly optionalDependencies?: object }>>;
  };
  const missing = Object.entries(packages).flatMap(([folder, locked]) =>
    Object.keys(locked.optionalDependencies ?? {})
      .filter((name) => !(`node_modules/${name}` in packages || `${folder}/node_modules/${name}` in packages))
      .map((name) => `${folder}: ${name}`),
  );
  expect(missing).toEqual([]);
});

function readSources(): SourceFile[] {
  return readdirSync(source, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => {
      const path = relative(source, join(entry.parentPath ?? entry.path, entry.name));
      const text = readFileSync(join(source, path), "utf8");
      return { path, text, room: roomOf(path), imports: importsOf(text) };
    });
}

function readTests(): { readonly path: string; readonly text: string }[] {
  const tests = join(root, "test");
  return readdirSync(tests, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => ({ path, text: readFileSync(join(tests, path), "utf8") }));
}

function importsOf(text: string): string[] {
  const plain = withoutComments(text);
  const statements = plain.matchAll(/^(?:(?:import|export)\b[^;'"]*?\bfrom\s+|import\s+)["']([^"']+)["']/gm);
  const dynamic = plain.matchAll(/\bimport\(\s*["']([^"']+)["']\s*\)/g);
  return [...statements, ...dynamic].map((match) => match[1] ?? "");
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "$1");
}

function localImports(file: SourceFile): string[] {
  return file.imports.filter((name) => name.startsWith(".")).map((name) => join(dirname(file.path), name));
}

/** A folder and those around it, without `src` itself. */
function withParents(folder: string): string[] {
  return folder === "." ? [] : [folder, ...withParents(dirname(folder))];
}

/** The sub-folder of `folder` that a file is in. */
function childOf(folder: string, path: string): string | undefined {
  if (!path.startsWith(`${folder}/`)) return undefined;
  const [child, ...rest] = path.slice(folder.length + 1).split("/");
  return rest.length > 0 ? child : undefined;
}

function roomOf(path: string): string {
  return path.split("/")[0] ?? path;
}

function floorOf(room: string): number {
  return FLOORS[room] ?? Number.POSITIVE_INFINITY;
}

function findCircle(): string[] {
  const graph = new Map(files.map((file) => [file.path, localImports(file)]));
  const finished = new Set<string>();
  const visit = (path: string, trail: readonly string[]): string[] => {
    if (trail.includes(path)) return [...trail.slice(trail.indexOf(path)), path];
    if (finished.has(path)) return [];
    for (const next of graph.get(path) ?? []) {
      const circle = visit(next, [...trail, path]);
      if (circle.length > 0) return circle;
    }
    finished.add(path);
    return [];
  };
  for (const path of graph.keys()) {
    const circle = visit(path, []);
    if (circle.length > 0) return circle;
  }
  return [];
}
