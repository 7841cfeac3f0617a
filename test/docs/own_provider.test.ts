/**
 * docs/guide/own-provider.md, run block by block as a reader would run it.
 */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compiledProgram } from "../compiled_program.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MAIN = join(ROOT, "dist/cli/main.js");
const run = promisify(execFile);
const page = readFileSync(join(ROOT, "docs/guide/own-provider.md"), "utf8");

let dir: string;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "perigee-own-"));
  writeFileSync(join(dir, "package.json"), '{"type":"module"}');
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function block(kind: string, index = 0): string {
  const found = [...page.matchAll(new RegExp(`^\`\`\`${kind}\n([\\s\\S]*?)^\`\`\`$`, "gm"))][index]?.[1];
  if (found === undefined) throw new Error(`the page has no block ${index} of ${kind}`);
  return found;
}

/** Standard output of a block of TypeScript. */
async function script(index: number): Promise<string> {
  writeFileSync(join(dir, `block${index}.ts`), block("ts", index));
  const { stdout } = await node([compiledProgram(join(dir, `block${index}.ts`), dir, ["perigee"])]);
  return stdout;
}

function node(words: readonly string[]) {
  const env = { PATH: process.env["PATH"] ?? "", XDG_STATE_HOME: dir, NO_COLOR: "1" };
  return run(process.execPath, [...words], { cwd: dir, env });
}

describe("docs/guide/own-provider.md", () => {
  it("answers an item by the function of its first example", async () => {
    expect(await script(0)).toBe("sky small says WHY IS THE SKY BLUE?\n");
  });

  it("answers a file by the module that its configuration names", async () => {
    const folder = join(dir, "settings");
    mkdirSync(folder);
    writeFileSync(join(folder, "my_provider.js"), block("js"));
    writeFileSync(join(folder, "perigee.json"), block("json"));
    const contents = [{ parts: [{ text: "hello" }] }];
    const line = { key: "a", request: { model: "mine:any", contents } };
    writeFileSync(join(dir, "questions.jsonl"), `${JSON.stringify(line)}\n`);
    const [, ...words] = block("sh").trim().split(" ");
    await node([MAIN, ...words.map((word) => (word === "perigee.json" ? "settings/perigee.json" : word))]);
    const [answer = ""] = readFileSync(join(dir, "answers.jsonl"), "utf8").split("\n");
    expect(JSON.parse(answer)).toMatchObject({ key: "a", output: { text: "You said: hello" } });
  });

  it("opens an engine with the codec of its example", async () => {
    expect(await script(1)).toBe("");
  });

  it("puts its function and its codec to their contracts", async () => {
    const lines = (await script(2)).trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(10);
    expect(lines.filter((line) => !line.startsWith("ok: "))).toEqual([]);
  });
});
