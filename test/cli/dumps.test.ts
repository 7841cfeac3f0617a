/** A service leaves no copy of its memory on a disk: no core dump with it, no heap snapshot. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { refuseHeapSnapshots } from "../../src/cli/dumps.ts";
import { MAIN } from "../built.ts";

let dir: string;
let child: ChildProcess | undefined;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "perigee-dumps-"));
});

afterEach(() => {
  child?.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

/** What the service says first, or at its end: on standard output, standard error, and with which code. */
function start(
  env: Record<string, string> = {},
): Promise<{ stdout: string; stderr: string; code?: number | null }> {
  const own = { PATH: process.env["PATH"] ?? "", ...env };
  const started = spawn(process.execPath, [MAIN, "serve", "--port", "0", "--data", "state"], {
    cwd: dir,
    env: own,
  });
  child = started;
  let stdout = "";
  let stderr = "";
  started.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  return new Promise((resolve) => {
    started.stdout.on("data", (chunk) => {
      stdout += chunk;
      if (stdout.includes("\n")) resolve({ stdout, stderr });
    });
    started.once("close", (code) => resolve({ stdout, stderr, code }));
  });
}

describe("perigee serve", () => {
  it.runIf(process.platform === "linux")(
    "leaves all memory out of a core dump, that of its threads included",
    async () => {
      const { stdout } = await start();
      expect(stdout).toContain("url");
      expect(Number.parseInt(readFileSync(`/proc/${child?.pid}/coredump_filter`, "utf8"), 16)).toBe(0);
      expect(Number.parseInt(readFileSync("/proc/self/coredump_filter", "utf8"), 16)).not.toBe(0);
    },
  );

  it("does not start where Node would write heap snapshots", async () => {
    const { code, stdout, stderr } = await start({ NODE_OPTIONS: "--heapsnapshot-signal=SIGUSR2" });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(
      "perigee: invalid_config: NODE_OPTIONS has --heapsnapshot-signal: a heap snapshot would hold",
    );
  });
});

describe("options of Node that write heap snapshots", () => {
  it.each([
    ["--max-old-space-size=512 --heapsnapshot-near-heap-limit=3", []],
    ["--heapsnapshot_near_heap_limit=1", []],
    ["", ["--heapsnapshot-signal", "SIGUSR2"]],
  ])("are found in NODE_OPTIONS %j and arguments %j", (NODE_OPTIONS, execArgv) => {
    expect(() => refuseHeapSnapshots({ NODE_OPTIONS }, execArgv)).toThrow("--heapsnapshot");
  });

  it("are not taken for others", () => {
    refuseHeapSnapshots({}, []);
    refuseHeapSnapshots({ NODE_OPTIONS: "--max-old-space-size=512 --title=heapsnapshot-signal" }, [
      "--no-warnings",
    ]);
  });
});
