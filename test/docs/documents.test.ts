/**
 * Keeps the documents true: what they list is compared with the code, what they show is compiled, their links exist.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { exitCodeOf } from "../../src/cli/exit.ts";
import { checkOptions, resolveConfig } from "../../src/engine/config/config.ts";
import { type ErrorCode, PerigeeError } from "../../src/errors.ts";
import { familyOf } from "../../src/queue/lanes.ts";
import { commandIn } from "../cli/command.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);
/** A member at the top of a configuration. */
const CONFIG_NAMES =
  /^ {0,2}\{? *"(?:providers|limits|families|prices|rateCard|satellites|projects|backlog)": \{/m;

const documents = ["README.md", "CHANGELOG.md", "docs/ARCHITECTURE.md"].concat(
  ["docs/guide", "docs/reference", "docs/decisions"].flatMap((folder) =>
    readdirSync(join(ROOT, folder)).map((name) => `${folder}/${name}`),
  ),
);

describe("README.md", () => {
  it("names the two commands, each on a line of its own", () => {
    const lines = read("README.md").split("\n");
    expect(lines).toContain("npm ci && npm run demo");
    expect(lines).toContain("npm ci && npm run check");
  });

  it("lists the options that perigee run --help lists, in that order", async () => {
    const { stdout } = await perigee(["run", "--help"]);
    const helped = [...stdout.matchAll(/^ {2}((?:-\w, )?--[a-z-]+(?: <\w+>)?)/gm)].map((match) => match[1]);
    const listed = [...read("README.md").matchAll(/^\| `((?:-\w, )?--[^`]+)` \|/gm)].map((match) => match[1]);
    expect(listed).toEqual(helped.filter((option) => option !== "-h, --help"));
  });
});

describe("CONTRIBUTING.md", () => {
  it("names files, folders and scripts that exist", () => {
    const text = read("CONTRIBUTING.md");
    const paths = text.match(/\b(?:src|test|docs|bench)\/[\w./-]*\w/g) ?? [];
    expect(paths.length).toBeGreaterThan(15);
    expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
    const { scripts } = JSON.parse(read("package.json")) as { readonly scripts: object };
    const named = [...text.matchAll(/npm run ([\w:]+)/g)].map(([, script]) => script);
    expect(named.filter((script) => !Object.hasOwn(scripts, script ?? ""))).toEqual([]);
  });
});

describe("docs/reference/cli.md", () => {
  it("shows the help of each command as it is", async () => {
    const text = read("docs/reference/cli.md");
    const commands = [
      "run",
      "quote",
      "plan",
      "simulate",
      "serve",
      "migrate",
      "workers",
      "keys create",
      "keys list",
      "keys revoke",
      "audit",
      "doctor",
      "init",
      "completion",
    ];
    const ofSecrets = ["secrets set", "secrets list", "secrets remove", "secrets rotate-key"];
    const ofSatellites = ["satellites", "satellites list", "satellites register", "satellites configure"];
    const ofClusters = ["cluster run", "cluster check"];
    for (const command of [
      ...commands,
      ...ofSecrets,
      ...ofSatellites,
      ...ofClusters,
      "orbit serve",
      "orbit describe",
    ]) {
      const { stdout } = await perigee([...command.split(" "), "--help"]);
      expect(text).toContain(`\`\`\`text\n${stdout.trimEnd()}\n\`\`\`\n`);
    }
  });
});

describe("docs/guide/clusters.md", () => {
  it("declares a cluster in which nothing is wrong", async () => {
    const [, yaml = ""] = /```yaml\n([\s\S]*?)```/.exec(read("docs/guide/clusters.md")) ?? [];
    const folder = mkdtempSync(join(tmpdir(), "perigee-guide-"));
    writeFileSync(join(folder, "nightly.yaml"), yaml);
    expect((await perigee(["cluster", "check", join(folder, "nightly.yaml")])).stdout).toBe("");
    rmSync(folder, { recursive: true, force: true });
  });
});

describe("docs/reference/errors.md", () => {
  const [items = "", calls = ""] = read("docs/reference/errors.md").split("## Of calls");

  it("has every code of an item", () => {
    expect(listedCodes(items).sort()).toEqual(codesOf("FailureCode").sort());
  });

  it("has every code of a call, with the exit code of the command line", () => {
    expect(listedCodes(calls).sort()).toEqual(codesOf("ErrorCode").sort());
    for (const [, code, exit] of calls.matchAll(/^\| `(\w+)` \| (\d+) \|/gm))
      expect([code, exitCodeOf(new PerigeeError(code as ErrorCode, ""))]).toEqual([code, Number(exit)]);
  });
});

describe("docs/ARCHITECTURE.md", () => {
  it("names files that exist", () => {
    const paths = [
      ...read("docs/ARCHITECTURE.md").matchAll(/`((?:src|test|docs|bench|scripts)\/[^`\s]+)`/g),
    ].map((match) => match[1] as string);
    expect(paths.length).toBeGreaterThan(40);
    expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });

  it("has every room on its floor", () => {
    const rows = [...read("docs/ARCHITECTURE.md").matchAll(/^\| (\d) \| ([^|]+) \|/gm)];
    const told = rows.flatMap(([, floor, rooms = ""]) =>
      [...rooms.matchAll(/`src\/([^`]+)`/g)].map((match) => `${match[1]} ${floor}`),
    );
    const floors = /FLOORS[^{]*\{([^}]*)\}/.exec(read("test/tidy.test.ts"))?.[1] ?? "";
    const held = [...floors.matchAll(/"?([\w.]+)"?: (\d),/g)]
      .filter(([, room = ""]) => existsSync(join(ROOT, "src", room)))
      .map(([, room, floor]) => `${room} ${floor}`);
    expect(told.sort()).toEqual(held.sort());
  });
});

describe("all documents", () => {
  it("link to files that exist", () => {
    const broken = documents.flatMap((document) =>
      [...read(document).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
        .map((match) => match[1] as string)
        .filter((target) => !/^https?:/.test(target))
        .filter((target) => !existsSync(join(ROOT, dirname(document), target)))
        .map((target) => `${document} -> ${target}`),
    );
    expect(broken).toEqual([]);
  });

  it("list every decision in docs/decisions/README.md", () => {
    const index = read("docs/decisions/README.md");
    const names = readdirSync(join(ROOT, "docs/decisions")).filter((name) => /^\d{4}-/.test(name));
    expect(names.filter((name) => !index.includes(`(${name})`))).toEqual([]);
  });

  it("show JSON that parses", () => {
    const broken = documents.flatMap((document) =>
      blocksOf(document, "json")
        .flatMap((block) => (isJson(block) ? [] : block.trimEnd().split("\n")))
        .filter((line) => !isJson(line))
        .map((line) => `${document}: ${line}`),
    );
    expect(broken).toEqual([]);
  });

  it("show configurations that are accepted word for word", async () => {
    const shown = documents.flatMap((document) =>
      blocksOf(document, "json")
        .filter((block) => isJson(block) && CONFIG_NAMES.test(block))
        .map((block) => [document, JSON.parse(block)] as const),
    );
    expect(shown.map(([document]) => document)).toContain("docs/reference/config.md");
    for (const [document, config] of shown)
      expect(resolveConfig(await checkOptions(config, document), {}).limits).toMatchObject(
        config.limits ?? {},
      );
  });

  it("counts the models of the configuration's example as the family that its limits name", async () => {
    const [example = "{}"] = blocksOf("docs/reference/config.md", "json");
    const { families, limits } = resolveConfig(await checkOptions(JSON.parse(example), "example"), {});
    expect(familyOf("openai", "gpt-4o-mini-2024-07-18", families)).toBe("mini");
    expect(Object.keys(limits)).toContain("openai:mini");
  });

  it("show TypeScript that compiles against the types that are published", async () => {
    const folder = mkdtempSync(join(tmpdir(), "perigee-blocks-"));
    try {
      writeFileSync(join(folder, "package.json"), '{"type":"module"}');
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(blocksConfig()));
      for (const document of documents) {
        for (const [index, block] of blocksOf(document, "ts").entries()) {
          const given = /const engine\b/.test(block)
            ? ""
            : 'import type { Engine } from "perigee";\ndeclare const engine: Engine;\n';
          writeFileSync(
            join(folder, `${document.replaceAll("/", "_")}.${index}.ts`),
            `${given}${block}\nexport {};\n`,
          );
        }
      }
      const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
      const found = await run(process.execPath, [tsc, "-p", folder]).then(
        () => "",
        (error: { stdout: string }) => error.stdout,
      );
      expect(found).toBe("");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

/** The project's own strictness, with the entry points of the build in place of the installed package: sources would be checked again. */
function blocksConfig(): object {
  const base = JSON.parse(read("tsconfig.json")) as { compilerOptions: object };
  return {
    compilerOptions: {
      ...base.compilerOptions,
      rootDir: "/",
      noUnusedLocals: false,
      typeRoots: [join(ROOT, "node_modules/@types")],
      paths: {
        perigee: [join(ROOT, "dist/index.d.ts")],
        "perigee/ai": [join(ROOT, "dist/ai/index.d.ts")],
        "perigee/fleet": [join(ROOT, "dist/fleet/index.d.ts")],
        "perigee/providers": [join(ROOT, "dist/providers/index.d.ts")],
        "perigee/satellites": [join(ROOT, "dist/satellites.d.ts")],
        "perigee/service": [join(ROOT, "dist/service/index.d.ts")],
        "perigee/testing": [join(ROOT, "dist/testing/index.d.ts")],
        ai: [join(ROOT, "node_modules/ai/dist/index.d.ts")],
        "@ai-sdk/openai-compatible": [join(ROOT, "node_modules/@ai-sdk/openai-compatible/dist/index.d.ts")],
        zod: [join(ROOT, "node_modules/zod/index.d.ts")],
        openai: [join(ROOT, "node_modules/openai/index.d.mts")],
      },
    },
    include: ["*.ts"],
  };
}

function perigee(words: readonly string[]): Promise<{ stdout: string }> {
  return commandIn(ROOT, words, { env: { XDG_STATE_HOME: process.env["XDG_STATE_HOME"] } });
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

function blocksOf(document: string, language: string): string[] {
  const fence = new RegExp(`^ *\`\`\`${language}\\n([\\s\\S]*?)^ *\`\`\`$`, "gm");
  return [...read(document).matchAll(fence)].map((match) => match[1] as string);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function listedCodes(text: string): string[] {
  return [...text.matchAll(/^\| `(\w+)` \|/gm)].map((match) => match[1] as string);
}

function codesOf(type: string): string[] {
  const plain = read("src/errors.ts").replaceAll(/\/\/.*$/gm, "");
  const union = new RegExp(`export type ${type} =([^;]*);`).exec(plain)?.[1] ?? "";
  return [...union.matchAll(/\| "(\w+)"/g)].map((match) => match[1] as string);
}
