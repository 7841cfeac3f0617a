/**
 * Each example of the documentation is run as a reader would run it, and must say what the guide says it says.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { commandIn } from "../cli/command.ts";
import { compiledProgram } from "../compiled_program.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Those that examples import. */
const PACKAGES = ["perigee", "ai", "zod"];

let temp: string;
beforeAll(() => {
  temp = mkdtempSync(join(tmpdir(), "perigee-examples-"));
  // The repository's own settings lead "perigee" to the sources, which take tsx seconds to load; a reader has the build.
  writeFileSync(join(temp, "tsconfig.json"), '{"compilerOptions":{"module":"nodenext","target":"es2023"}}');
});
afterAll(() => rmSync(temp, { recursive: true, force: true }));

describe("the examples", () => {
  it("are those that are run here", () => {
    const names = readdirSync(join(ROOT, "docs/examples")).filter((name) => name.endsWith(".ts"));
    expect(names.sort()).toEqual([
      "ai_sdk.ts",
      "backend.ts",
      "batch_script.ts",
      "benchmark_harness.ts",
      "quote.ts",
      "satellite.ts",
      "simulate.ts",
    ]);
  });

  it("ai_sdk: calls are answered, and the second run finds their tasks", async () => {
    const first = await run("ai_sdk", [join(temp, "ai")]);
    expect(first.map((line) => line.replace(/ \(task .*/, ""))).toEqual(
      ["red", "green", "blue"].map((colour) => `Name something ${colour}.`),
    );
    expect(await run("ai_sdk", [join(temp, "ai")])).toEqual(first);
  });

  it("backend: a list is stored, answered in the background, and found by its ids", async () => {
    expect(await run("backend")).toEqual([
      "completed: 3 of 3",
      "  Hello (2 tokens, factor 0.8194)",
      "  How are you? (3 tokens, factor 0.8194)",
      "  Goodbye (2 tokens, factor 0.8194)",
      "an unknown task: 404",
    ]);
  });

  it("batch_script: every line is answered, and nothing is sent the second time", async () => {
    const words = [join(ROOT, "docs/examples/questions.jsonl"), join(temp, "batch")];
    const [first, sent] = await run("batch_script", words);
    expect(first).toBe("completed: 300 answered, 0 failed");
    expect(sent).toMatch(/^300 requests were sent, the answers are in /);
    const [again, resent] = await run("batch_script", words);
    expect(again).toBe("completed: 300 answered, 0 failed");
    expect(resent).toMatch(/^0 requests were sent, /);
  });

  it("benchmark_harness: a stopped run continues, and no case is sent twice", async () => {
    const told = await node(["--import", "tsx", "docs/examples/benchmark_harness.ts"]); // as the guide says
    const lines = told.map((line) =>
      /^(stopped|completed): (\d+) of (\d+) right, (\d+) requests$/.exec(line),
    );
    const [stopped, continued, repeated] = lines.map((line) =>
      line?.slice(1).map((text) => Number(text) || text),
    );
    expect(stopped?.[0]).toBe("stopped");
    expect(stopped?.[2]).toBeGreaterThanOrEqual(500);
    expect(continued?.slice(0, 3)).toEqual(["completed", 2_000, 2_000]);
    expect(Number(stopped?.[3]) + Number(continued?.[3])).toBe(2_000);
    expect(repeated).toEqual(["completed", 2_000, 2_000, "0"]);
  });

  it("quote: two models are counted and priced for two windows", async () => {
    const lines = await run("quote");
    expect(lines).toHaveLength(8);
    expect(lines[0]).toMatch(
      /^openai:gpt-4o-mini: 300 items, \d+ input tokens, about 0\.\d{4} USD billed \(0\.\d{4} to \d\.\d{4}\)$/,
    );
    expect(lines[2]).toMatch(/^ {2}within 1440 minutes: feasible$/);
    expect(lines[4]).toMatch(/^anthropic:claude-haiku-4-5: 300 items, \d+ \(estimated\) input tokens/);
  });

  it("simulate: an outage and hanging requests leave no item without an answer", async () => {
    const lines = await run("simulate");
    expect(lines).toHaveLength(2);
    for (const line of lines)
      expect(line).toMatch(
        /^seed \d: 600 of 600 answered in \d+\.\d minutes, [1-9]\d* requests failed, 0 left$/,
      );
  });

  it("satellite: one of the program's own is described, run, and refuses what its schemas do not know", async () => {
    expect(await run("satellite")).toEqual([
      'custom: ["texts"]',
      'completed: {"words":[3,5]}',
      "  input.texts[0]: Invalid input: expected string, received number",
      '  config: Unrecognized key: "most"',
    ]);
  });
});

describe("the README", () => {
  it("shows what a simulation of the questions says", async () => {
    const readme = readFileSync(join(ROOT, "README.md"), "utf8");
    const command = /node dist\/cli\/main\.js (simulate .+)\n/.exec(readme)?.[1] ?? "";
    const shown = /\n(simulated\n[^`]+)```/.exec(readme)?.[1]?.trimEnd() ?? "nothing is shown";
    const { stdout } = await commandIn(ROOT, command.split(" "), { env: { XDG_STATE_HOME: temp } });
    expect(stdout).toContain(shown);
  });
});

describe("the examples of clusters", () => {
  it("tides: members answer without any key, and the last one has the answers of the first", async () => {
    const data = join(temp, "tides");
    const words = ["cluster", "run", "docs/examples/clusters/tides.yaml", "--data", data, "--json"];
    const { stdout } = await commandIn(ROOT, words, { env: { XDG_STATE_HOME: temp } });
    const { status, members } = JSON.parse(stdout) as {
      status: string;
      members: { identifier: string; output: unknown }[];
    };
    expect([status, members.map(({ identifier }) => identifier)]).toEqual(["completed", ["ask", "sum"]]);
    expect(members[0]?.output).toMatchObject([
      { response: "Why are there tides?" },
      { response: "Why are there two a day?" },
      { response: "What is a spring tide?" },
    ]);
    expect(JSON.stringify(members[1]?.output)).toContain("What is a spring tide?");
  });
});

/** Runs an example; resolves with the lines of its standard output when it ended with 0. */
function run(name: string, words: readonly string[] = []): Promise<string[]> {
  return node([compiledProgram(join(ROOT, `docs/examples/${name}.ts`), temp, PACKAGES), ...words]);
}

function node(words: readonly string[]): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...words], {
      cwd: ROOT,
      env: {
        ...{ PATH: process.env["PATH"], TMPDIR: temp, XDG_STATE_HOME: temp },
        TSX_TSCONFIG_PATH: join(temp, "tsconfig.json"),
      },
      timeout: 110_000,
    });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(stdout.trimEnd().split("\n"));
      else reject(new Error(`${words[0]} ended with ${code}:\n${stderr}`));
    });
  });
}
