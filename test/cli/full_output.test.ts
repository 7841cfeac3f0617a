/** A standard output or error that takes nothing: a full disk, of which /dev/full is the smallest. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";

let folder: string;
let full: number;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-test-"));
  full = openSync("/dev/full", "w");
});
afterAll(() => {
  closeSync(full);
  rmSync(folder, { recursive: true, force: true });
});

describe("a command whose output goes to a full disk", () => {
  it("does its work, says that its summary is missing, and ends with 74", () => {
    writeFileSync(join(folder, "in.jsonl"), '{"key":"a","model":"echo:m","input":"x"}\n');
    const words = ["run", "in.jsonl", "--out", "out.jsonl", "--json", "--no-learn"];
    const { status, stderr } = spawnSync(process.execPath, [MAIN, ...words], {
      cwd: folder,
      stdio: ["ignore", full, "pipe"],
      encoding: "utf8",
    });
    expect(status).toBe(74);
    expect(stderr).toMatch(/output_unwritable: standard output could not be written: ENOSPC/);
    expect(stderr).not.toContain("    at ");
    expect(readFileSync(join(folder, "out.jsonl"), "utf8")).toContain('"key":"a"');
  });

  it("does its work where errors and progress cannot be written", () => {
    const words = ["run", "in.jsonl", "--out", "other.jsonl", "--no-learn"];
    const { status } = spawnSync(process.execPath, [MAIN, ...words], {
      cwd: folder,
      stdio: ["ignore", "pipe", full],
    });
    expect(status).toBe(0);
    expect(readFileSync(join(folder, "other.jsonl"), "utf8")).toContain('"key":"a"');
  });

  it("serves where its log cannot be written", async () => {
    const service = spawn(
      process.execPath,
      [MAIN, "serve", "--port", "0", "--data", "data", "--log-level", "info"],
      {
        cwd: folder,
        stdio: ["ignore", "pipe", full],
      },
    );
    const ended = once(service, "exit");
    const [line] = (await once(service.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
    const { url } = JSON.parse(line.toString()) as { url: string };
    for (let request = 0; request < 3; request += 1) expect((await fetch(`${url}/healthz`)).status).toBe(200);
    service.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
  });
});
