import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { MAIN } from "../built.ts";
import { commandIn, type Ended, question } from "./command.ts";

const WAIT = { timeout: 60_000, interval: 20 };

let dir: string;
let child: ChildProcess | undefined;
let ended: Promise<{ readonly code: number | null; readonly stderr: string }>;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "perigee-test-"));
  child = undefined;
});
afterEach(() => {
  child?.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

/** `perigee run <input>`, whose standard input stays open. */
function start(input = "-"): ChildProcess {
  const env = { PATH: process.env["PATH"], NO_COLOR: "1", XDG_STATE_HOME: dir };
  const started = spawn(process.execPath, [MAIN, "run", input, "--out", "out.jsonl"], { cwd: dir, env });
  child = started;
  let stderr = "";
  started.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  started.stdin.on("error", () => undefined); // it leaves the pipe when it ends
  ended = new Promise((resolve) => started.on("close", (code) => resolve({ code, stderr })));
  return started;
}

/** The same with all of its standard input, or a file. */
function runWith(stdin: string, input = "-", out = "out.jsonl"): Promise<Ended> {
  return commandIn(dir, ["run", input, "--out", out], { env: { XDG_STATE_HOME: dir }, stdin });
}

function keys(out = "out.jsonl"): string[] {
  const path = join(dir, out);
  const text = existsSync(path) ? readFileSync(path, "utf8") : "";
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => String((JSON.parse(line) as { key: unknown }).key));
}

describe("perigee run -", () => {
  it("answers a line as soon as it comes, and ends at once when it is interrupted meanwhile", async () => {
    const child = start();
    for (const key of ["a", "b", "c"]) {
      const before = keys();
      child.stdin?.write(`${JSON.stringify(question(key))}\n`);
      await vi.waitFor(() => expect(keys()).toEqual([...before, key]), WAIT);
    }
    child.kill("SIGINT");
    expect(await ended).toMatchObject({ code: 130 });
  });

  it("ends in order when its terminal is closed, which nobody reads then and which says so more than once", async () => {
    const child = start();
    child.stdin?.write(`${JSON.stringify(question("a"))}\n`);
    await vi.waitFor(() => expect(keys()).toEqual(["a"]), WAIT);
    child.stderr?.destroy();
    child.kill("SIGHUP");
    child.kill("SIGHUP");
    expect(await ended).toMatchObject({ code: 130 });
  });

  it("ends as it would when nobody reads what it says any more", async () => {
    const child = start();
    child.stdout?.destroy();
    child.stderr?.destroy();
    for (const key of ["a", "b"]) child.stdin?.write(`${JSON.stringify(question(key))}\n`);
    child.stdin?.end();
    expect(await ended).toMatchObject({ code: 0 });
    expect(keys().sort()).toEqual(["a", "b"]);
  });

  it("takes the path of a pipe as well", async () => {
    execFileSync("mkfifo", [join(dir, "pipe")]);
    start("pipe");
    writeFileSync(join(dir, "pipe"), `${JSON.stringify(question("a"))}\n`);
    expect(await ended).toMatchObject({ code: 0 });
    expect(keys()).toEqual(["a"]);
  });

  it("reads one array as the array that it is, and lines as lines", async () => {
    const pretty = JSON.stringify([question("a"), question("b")], undefined, 2);
    expect(await runWith(`${pretty}\n`)).toMatchObject({ code: 0 });
    expect(keys().sort()).toEqual(["a", "b"]);
    rmSync(join(dir, "out.jsonl"));
    rmSync(join(dir, "out.jsonl.perigee"), { recursive: true });
    const lines = `${JSON.stringify([question("a")])}\n${JSON.stringify(question("b"))}\n`;
    expect(await runWith(lines)).toMatchObject({ code: 3, stderr: expect.stringContaining("invalid_line") });
    expect(keys().sort()).toEqual(["b", "null"]);
  });

  it("says how another input differs from the one that its output is for, and what it advises works", async () => {
    const pass = async (lines: readonly object[], out?: string): Promise<unknown> => {
      const { code, stderr } = await runWith(
        lines.map((line) => `${JSON.stringify(line)}\n`).join(""),
        "-",
        out,
      );
      return code === 0 ? code : [code, stderr];
    };
    const [a, b, c] = [question("a"), question("b"), question("c")] as const;
    const advice = "pass the same input again, or use another --out for a new run\n";
    expect(await pass([a, b])).toBe(0);
    for (const [lines, what] of [
      [[a, b, c], "the input has more lines than the one that this run has answered"],
      [[a], "the input ends before the lines that this run has begun do"],
      [[a, c], "the input has other lines than the one that this run began with"],
      [[question("a", "longer"), b], "the input has other lines than the one that this run began with"],
      [[a, question("b", "longer")], "the input has other lines than the one that this run began with"],
      [[a, question("b", "")], "the input has other lines than the one that this run began with"],
      [[c], "the input ends before the lines that this run has begun do"],
    ] as const)
      expect(await pass(lines)).toEqual([74, `perigee: input_changed: ${what}; ${advice}`]);
    expect(await pass([a, b])).toBe(0);
    expect(await pass([a, b, c], "other.jsonl")).toBe(0);
    expect(keys("other.jsonl").sort()).toEqual(["a", "b", "c"]);
  });

  it("says of a run that began with a file which file that is", async () => {
    writeFileSync(join(dir, "in.jsonl"), `${JSON.stringify(question("a"))}\n`);
    expect(await runWith("", "in.jsonl")).toMatchObject({ code: 0 });
    const ended = await runWith(`${JSON.stringify(question("a"))}\n`);
    const said = `this run began with the file ${join(dir, "in.jsonl")}, and its input is a stream now; use that file again, or another output`;
    expect(ended).toEqual({ code: 74, stdout: "", stderr: `perigee: input_changed: ${said}\n` });
  });

  it("refuses what is compressed", async () => {
    const child = start();
    child.stdin?.end(gzipSync(JSON.stringify(question("a"))));
    const { code, stderr } = await ended;
    expect({ code, stderr }).toMatchObject({ stderr: expect.stringContaining("unsupported_encoding") });
    expect(code).not.toBe(0);
    expect(keys()).toEqual([]);
  });
});
