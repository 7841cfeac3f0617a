import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { MAIN } from "../built.ts";
import { question } from "./command.ts";

const WAIT = { timeout: 15_000, interval: 20 };

let dir: string;
let child: ChildProcess;
let ended: Promise<{ readonly code: number | null; readonly stderr: string }>;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "perigee-test-"));
});
afterEach(() => {
  child.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

/** `perigee run <input>`, whose standard input stays open. */
function start(input = "-"): void {
  const env = { PATH: process.env["PATH"], NO_COLOR: "1", XDG_STATE_HOME: dir };
  child = spawn(process.execPath, [MAIN, "run", input, "--out", "out.jsonl"], { cwd: dir, env });
  let stderr = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  child.stdin?.on("error", () => undefined); // it leaves the pipe when it ends
  ended = new Promise((resolve) => child.on("close", (code) => resolve({ code, stderr })));
}

function keys(): string[] {
  const path = join(dir, "out.jsonl");
  const text = existsSync(path) ? readFileSync(path, "utf8") : "";
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => String((JSON.parse(line) as { key: unknown }).key));
}

describe("perigee run -", () => {
  it("answers a line as soon as it comes, and ends at once when it is interrupted meanwhile", async () => {
    start();
    for (const key of ["a", "b", "c"]) {
      const before = keys();
      child.stdin?.write(`${JSON.stringify(question(key))}\n`);
      await vi.waitFor(() => expect(keys()).toEqual([...before, key]), WAIT);
    }
    child.kill("SIGINT");
    expect(await ended).toMatchObject({ code: 130 });
  });

  it("ends in order when its terminal is closed, which nobody reads then and which says so more than once", async () => {
    start();
    child.stdin?.write(`${JSON.stringify(question("a"))}\n`);
    await vi.waitFor(() => expect(keys()).toEqual(["a"]), WAIT);
    child.stderr?.destroy();
    child.kill("SIGHUP");
    child.kill("SIGHUP");
    expect(await ended).toMatchObject({ code: 130 });
  });

  it("ends as it would when nobody reads what it says any more", async () => {
    start();
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
    start();
    child.stdin?.end(`${pretty}\n`);
    expect(await ended).toMatchObject({ code: 0 });
    expect(keys().sort()).toEqual(["a", "b"]);
    rmSync(join(dir, "out.jsonl"));
    rmSync(join(dir, "out.jsonl.perigee"), { recursive: true });
    start();
    child.stdin?.end(`${JSON.stringify([question("a")])}\n${JSON.stringify(question("b"))}\n`);
    expect(await ended).toMatchObject({ code: 3, stderr: expect.stringContaining("invalid_line") });
    expect(keys().sort()).toEqual(["b", "null"]);
  });

  it("refuses what is compressed", async () => {
    start();
    child.stdin?.end(gzipSync(JSON.stringify(question("a"))));
    const { code, stderr } = await ended;
    expect({ code, stderr }).toMatchObject({ stderr: expect.stringContaining("unsupported_encoding") });
    expect(code).not.toBe(0);
    expect(keys()).toEqual([]);
  });
});
