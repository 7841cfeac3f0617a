/**
 * Disks that are really full. A service: what its callers are answered, how fast, and that it takes work again. A run over a table: that
 * its output is written later, and nothing asked again.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { MAIN } from "../built.ts";
import { createKey, urlOf } from "./killed_service.ts";

const input = "a word or two ".repeat(20_000);
const SMALL = [{ model: "echo:m", input, sla: 60 }];
const LARGE = [...SMALL, { model: "echo:m", input, sla: 90 }];

it("a service on a full disk refuses posts and retries at once, says so, and takes them when there is room", async (context) => {
  const mount = mkdtempSync(join(tmpdir(), "perigee-full-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", mount], { stdio: "ignore" });
  } catch {
    rmSync(mount, { recursive: true });
    context.skip(
      "no right to mount a small disk here: a service on a full disk was NOT tried (see tasks/full_disk.test.ts)",
    );
  }
  onTestFinished(() => {
    execFileSync("umount", ["-l", mount]);
    rmSync(mount, { recursive: true });
  });
  const dataDir = join(mount, "data");
  mkdirSync(dataDir);
  const key = await createKey(dataDir);
  const child = spawn(process.execPath, [MAIN, "serve", "--port", "0", "--data", dataDir], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const url = await urlOf(child);
  const call = async (method: string, path: string, body?: unknown) => {
    const sinceMs = performance.now();
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const response = await fetch(new URL(path, url), {
      ...{ method, headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: bodies of several shapes
    const json = (await response.json()) as any;
    return { status: response.status, json, tookMs: performance.now() - sinceMs };
  };
  const until = async (path: string, status: number): Promise<void> => {
    for (let time = 0; time < 60 && (await call("GET", path)).status !== status; time += 1)
      await new Promise((resolve) => setTimeout(resolve, 500));
  };
  await until("/readyz", 200);
  const first = await call("POST", "/v0/infer/", SMALL);
  const { bavail, bsize } = statfsSync(mount);
  const ballast = join(mount, "ballast");
  writeFileSync(ballast, new Uint8Array((bavail - 512) * bsize));
  for (const items of [SMALL, LARGE, SMALL, LARGE]) {
    let answer = await call("POST", "/v0/infer/", items);
    // The first ones may live on the space that is kept aside.
    for (let time = 0; time < 200 && answer.status < 300; time += 1)
      answer = await call("POST", "/v0/infer/", items);
    expect(answer).toMatchObject({ status: 507, json: { error: { code: "disk_full" } } });
    expect(answer.tookMs).toBeLessThan(5_000);
  }
  const retried = await call("POST", `/v0/infer/task/${first.json.task_id}/retry`, {
    codes: ["empty_output"],
  });
  expect(retried).toMatchObject({ status: 507, json: { error: { code: "disk_full" } } });
  expect(retried.tookMs).toBeLessThan(5_000);
  expect(await call("GET", "/readyz")).toMatchObject({
    status: 503,
    json: {
      error: { code: "disk_full", message: "no space is left on the disk of the data folder; free some" },
    },
  });
  rmSync(ballast);
  await until("/readyz", 200);
  expect((await call("GET", "/readyz")).status).toBe(200);
  expect((await call("POST", "/v0/infer/", SMALL)).status).toBeLessThan(300);
  expect((await call("POST", "/v0/infer/", LARGE)).status).toBeLessThan(300);
}, 120_000);

it("a table whose output has no space is written by the same command when there is, and nothing is asked again", (context) => {
  const mount = mkdtempSync(join(tmpdir(), "perigee-full-"));
  const folder = mkdtempSync(join(tmpdir(), "perigee-full-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const resized = (words: readonly string[]): void =>
    void execFileSync("mount", [...words, "tmpfs", mount], { stdio: "ignore" });
  try {
    resized(["-t", "tmpfs", "-o", "size=64k"]);
  } catch {
    rmSync(mount, { recursive: true });
    context.skip(
      "no right to mount a small disk here: a table on a full disk was NOT tried (see cli/table_disk.test.ts)",
    );
  }
  onTestFinished(() => {
    execFileSync("umount", ["-l", mount]);
    rmSync(mount, { recursive: true });
  });
  const text = "some words, ".repeat(1_000);
  writeFileSync(join(folder, "rows.csv"), `text\n${`"${text}"\n`.repeat(20)}`);
  writeFileSync(join(folder, "prompt.md"), "---\nmodel: echo:m\n---\nSay: {{text}}");
  const out = join(mount, "out.csv");
  const words = [
    "run",
    "rows.csv",
    "--prompt",
    "prompt.md",
    "--out",
    out,
    "--data",
    "data",
    "--no-learn",
    "--json",
  ];
  const run = () =>
    spawnSync(process.execPath, [MAIN, ...words, "--wait", "1s"], { cwd: folder, encoding: "utf8" });

  const full = run();
  expect([full.status, JSON.parse(full.stdout)]).toMatchObject([
    3,
    { status: "paused", reason: "disk_full" },
  ]);
  expect(full.stderr).toContain(`disk_full: no space left on the disk of ${out} for 1 s`);
  expect(readdirSync(mount)).toEqual([]);
  resized(["-o", "remount,size=8m"]);
  const again = run();
  expect([again.status, JSON.parse(again.stdout)]).toMatchObject([0, { requests_sent: 0 }]);
  expect(readFileSync(out, "utf8").match(/Say: /g)).toHaveLength(20);
}, 60_000);
