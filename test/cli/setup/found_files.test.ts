/** Which configuration and which `.env` a command finds, and what it refuses to use. */
import { chmodSync, chownSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findConfig, findEnv, useFoundFiles } from "../../../src/cli/setup/found_files.ts";

let top: string;
let project: string;
let deep: string;
const before = process.cwd();

beforeEach(() => {
  top = realpathSync(mkdtempSync(join(tmpdir(), "perigee-found-")));
  project = join(top, "project");
  deep = join(project, "data", "today");
  mkdirSync(deep, { recursive: true });
});

afterEach(() => {
  process.chdir(before);
  rmSync(top, { recursive: true, force: true });
});

const from = (folder: string, home = "/nowhere") => ({ folder, home, userId: process.getuid?.() });

/** What a command in a folder is told and gets. */
function used(
  folder: string,
  given: Record<string, unknown> = {},
  env: Record<string, string | undefined> = {},
) {
  const options = { ...given };
  const notices: string[] = [];
  process.chdir(folder);
  useFoundFiles(
    { opts: () => options, setOptionValue: (name, value) => (options[name] = value) },
    env,
    (line) => notices.push(line),
  );
  return { options, notices, env };
}

describe("the configuration of a command", () => {
  it.each(["perigee.config.yaml", "perigee.config.yml", "perigee.config.json"])(
    "is %s of the nearest folder above",
    (name) => {
      writeFileSync(join(top, "perigee.config.yaml"), "");
      writeFileSync(join(project, name), "{}");
      expect(findConfig(from(deep))).toBe(join(project, name));
    },
  );

  it("is not looked for above the root of a repository, nor above the home folder", () => {
    writeFileSync(join(top, "perigee.config.yaml"), "");
    expect(findConfig(from(deep))).toBe(join(top, "perigee.config.yaml"));
    expect(findConfig(from(deep, project))).toBeUndefined();
    mkdirSync(join(project, ".git"));
    expect(findConfig(from(deep))).toBeUndefined();
    writeFileSync(join(project, "perigee.config.json"), "{}");
    expect(findConfig(from(deep))).toBe(join(project, "perigee.config.json"));
  });

  it("is refused where one folder has two", () => {
    writeFileSync(join(project, "perigee.config.yaml"), "");
    writeFileSync(join(project, "perigee.config.json"), "{}");
    expect(() => findConfig(from(project))).toThrow(
      "perigee.config.yaml and perigee.config.json both exist: keep one of them",
    );
  });

  it("is refused above the working folder where another user owns it, or everyone may write it", () => {
    const path = join(project, "perigee.config.yaml");
    writeFileSync(path, "");
    expect(() => findConfig({ ...from(deep), userId: 4_321 })).not.toThrow(); // the working folder has the same owner
    chmodSync(path, 0o666);
    expect(() => findConfig(from(deep))).toThrow(/not used, because every user of this machine may write it/);
    expect(findConfig(from(project))).toBe(path);
  });

  it.runIf(process.getuid?.() === 0)(
    "is refused above the working folder where its owner is nobody that the user trusts",
    () => {
      const path = join(top, "perigee.config.yaml");
      writeFileSync(path, "");
      chownSync(path, 4_321, 4_321);
      expect(() => findConfig(from(deep))).toThrow(
        "../../../perigee.config.yaml is not used, because it belongs to another user; --config ../../../perigee.config.yaml uses it, and --no-config runs without it",
      );
      expect(findConfig(from(top))).toBe(path);
    },
  );

  it("is not a folder of that name", () => {
    mkdirSync(join(project, ".env"));
    writeFileSync(join(top, ".env"), "A=1");
    expect(findEnv(from(deep))).toBe(join(top, ".env"));
  });
});

describe("a command in a folder", () => {
  it("uses what it finds, and says so in one line without a value", () => {
    writeFileSync(join(project, "perigee.config.yaml"), "");
    writeFileSync(join(top, ".env"), "OPENAI_API_KEY=sk-1\nPORT=80\n");
    const { options, notices, env } = used(deep);
    expect(options).toEqual({ config: "../../perigee.config.yaml", envFile: "../../../.env" });
    expect(env).toEqual({ OPENAI_API_KEY: "sk-1", PORT: "80" });
    expect(notices).toEqual([
      "perigee: using ../../perigee.config.yaml, and OPENAI_API_KEY, PORT of ../../../.env (--no-config uses neither)",
    ]);
  });

  it("says nothing with --quiet, and nothing where nothing is found", () => {
    writeFileSync(join(project, "perigee.config.yaml"), "");
    expect(used(deep, { quiet: true })).toMatchObject({
      options: { config: "../../perigee.config.yaml" },
      notices: [],
    });
    mkdirSync(join(project, "data", ".git"));
    expect(used(deep)).toEqual({ options: {}, notices: [], env: {} });
  });

  it("never overrides a variable of the environment, not even an empty one", () => {
    writeFileSync(join(project, ".env"), 'A_KEY="of the file" # why\nB_KEY=2\nC_KEY=\n');
    const { env, notices, options } = used(project, {}, { A_KEY: "own", B_KEY: "" });
    expect(env).toEqual({ A_KEY: "own", B_KEY: "" });
    expect(options).toEqual({});
    expect(notices).toEqual([]);
  });

  it("reads line ends of Windows, quotes, and a byte order mark", () => {
    writeFileSync(join(project, ".env"), "\uFEFFA_KEY=1\r\nexport B_KEY='x y'\r\n");
    expect(used(project).env).toEqual({ A_KEY: "1", B_KEY: "x y" });
  });

  it("uses neither with --no-config, and another configuration with --config", () => {
    writeFileSync(join(project, "perigee.config.yaml"), "");
    writeFileSync(join(project, ".env"), "A_KEY=1");
    expect(used(project, { config: false })).toEqual({
      options: { config: undefined },
      notices: [],
      env: {},
    });
    expect(used(project, { config: "mine.json" })).toMatchObject({
      options: { config: "mine.json", envFile: ".env" },
      notices: ["perigee: using A_KEY of .env (--no-config uses neither)"],
    });
  });

  it("refuses a misspelt variable of perigee in .env, and names the file", () => {
    writeFileSync(join(project, ".env"), "PERIGEE_MAX_INFLIGT=5");
    expect(() => used(project)).toThrow(
      '.env: PERIGEE_MAX_INFLIGT is not a known variable; did you mean "PERIGEE_MAX_INFLIGHT"?',
    );
  });

  it("names three variables, those that perigee reads first, and counts the others", () => {
    writeFileSync(join(project, ".env"), "PORT=1\nTZ=UTC\nX=1\nGROQ_API_KEY=1\nOPENAI_BASE_URL=http://x\n");
    expect(used(project).notices[0]).toContain(
      "using GROQ_API_KEY, OPENAI_BASE_URL, PORT and 2 more variables of .env",
    );
  });
});
