/**
 * `perigee serve` as a process.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { commandIn } from "./command.ts";

const env = { PATH: process.env["PATH"] ?? "", NO_COLOR: "1" };

let dir: string;
const children: ChildProcess[] = [];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "perigee-serve-"));
});

afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

interface Served {
  readonly url: string;
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  stderr(): string;
}

/** Resolves when the process has said where it answers. */
async function serve(...words: string[]): Promise<Served> {
  const child = spawn(process.execPath, [MAIN, "serve", "--port", "0", "--data", "state", ...words], {
    cwd: dir,
    env,
  });
  children.push(child);
  let stdout = "";
  let stderr = "";
  child.stderr?.on("data", (chunk) => {
    stderr += chunk;
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const first = await new Promise<string>((resolve, reject) => {
    child.stdout?.on("data", (chunk) => {
      stdout += chunk;
      if (stdout.includes("\n")) resolve(stdout.split("\n", 1)[0] as string);
    });
    ended.then((code) => reject(new Error(`ended with ${code}: ${stderr}`)));
  });
  return { url: (JSON.parse(first) as { url: string }).url, child, ended, stderr: () => stderr };
}

async function newKey(): Promise<{ id: string; headers: Record<string, string> }> {
  const { stdout } = await commandIn(dir, [
    "keys",
    "create",
    "--project",
    "one",
    "--data",
    "state",
    "--json",
  ]);
  const { id, key } = JSON.parse(stdout) as { id: string; key: string };
  return { id, headers: { authorization: `Bearer ${key}`, "content-type": "application/json" } };
}

/** A list of items that all come after an hour, about 500 bytes each. */
function* pieces(text: string, count: number): Generator<string> {
  for (let index = 0; index < count; index += 100) {
    const items = Array.from({ length: 100 }, (_, n) => ({
      model: "echo:x",
      input: `${text}${index + n}`,
      sla: 1_440,
    }));
    yield `${index === 0 ? "[" : ","}${JSON.stringify(items).slice(1, -1)}`;
  }
  yield "]";
}

const body = JSON.stringify([{ model: "echo:test", input: "hello", sla: 60 }]);

describe("perigee serve", () => {
  it("says where it answers, takes keys made meanwhile, and refuses them once revoked", async () => {
    const { url } = await serve();
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    const { id, headers } = await newKey();
    expect((await fetch(`${url}/v0/infer/`, { method: "POST", headers, body })).status).toBe(200);
    await commandIn(dir, ["keys", "revoke", id, "--data", "state"]);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect((await fetch(`${url}/v0/infer/tasks`, { headers })).status).toBe(401);
  });

  it("ends on SIGTERM with 0, and the next process has every task", async () => {
    const { headers } = await newKey();
    const first = await serve();
    const posted = await fetch(`${first.url}/v0/infer/`, { method: "POST", headers, body });
    const { task_id } = (await posted.json()) as { task_id: string };
    first.child.kill("SIGTERM");
    expect(await first.ended).toBe(0);
    const second = await serve();
    const found = await fetch(`${second.url}/v0/infer/task/${task_id}`, { headers });
    expect([found.status, ((await found.json()) as { task_id: string }).task_id]).toEqual([200, task_id]);
  });

  it("writes what requests and perigee keys did to one audit log, with which settings changed", async () => {
    const { id, headers } = await newKey();
    const first = await serve();
    const posted = await fetch(`${first.url}/v0/infer/`, { method: "POST", headers, body });
    const { task_id } = (await posted.json()) as { task_id: string };
    await commandIn(dir, ["keys", "revoke", id, "--data", "state"]);
    await fetch(`${first.url}/v0/infer/tasks`);
    await fetch(`${first.url}/v0/infer/tasks`);
    first.child.kill("SIGTERM");
    expect(await first.ended).toBe(0);
    const second = await serve("--public-url", "https://perigee.test");
    second.child.kill("SIGTERM");
    expect(await second.ended).toBe(0);
    const checked = await commandIn(dir, ["audit", "--data", "state", "--json"]);
    expect(JSON.parse(checked.stdout)).toMatchObject({ lines: 5, first_line: 1 });
    const name = readdirSync(join(dir, "state")).find((one) => one.startsWith("audit-"))!;
    const lines = readFileSync(join(dir, "state", name), "utf8")
      .trim()
      .split("\n");
    const found = lines.map((line) => JSON.parse(line) as { event: string });
    const failed = { event: "login.failed", count: 2 };
    expect(found.toSorted((a, b) => (a.event < b.event ? -1 : 1))).toMatchObject([
      { event: "config.changed", setting: "publicUrl" },
      { event: "key.created", project: "one", key: id },
      { event: "key.revoked", project: "one", key: id },
      failed,
      { event: "task.created", project: "one", key: id, task: task_id },
    ]);
  });

  it("loses no acknowledged task when it is killed", async () => {
    const { headers } = await newKey();
    const first = await serve();
    const ids: string[] = [];
    const posts = Array.from({ length: 200 }, async () => {
      const posted = await fetch(`${first.url}/v0/infer/`, { method: "POST", headers, body }).catch(
        () => undefined,
      );
      const text = await posted?.text().catch(() => undefined);
      if (posted?.status !== 200 || text === undefined) return;
      ids.push((JSON.parse(text) as { task_id: string }).task_id);
      if (ids.length === 50) first.child.kill("SIGKILL");
    });
    await Promise.all(posts);
    await first.ended;
    const second = await serve();
    for (const id of ids)
      expect((await fetch(`${second.url}/v0/infer/task/${id}`, { headers })).status).toBe(200);
    expect(ids.length).toBeGreaterThanOrEqual(50);
  });

  it("keeps its folder to its owner, and ends at once on a second signal", async () => {
    const { child, ended, stderr } = await serve();
    expect(statSync(join(dir, "state")).mode & 0o777).toBe(0o700);
    child.kill("SIGTERM");
    child.kill("SIGINT");
    expect([0, 130]).toContain(await ended);
    expect(stderr()).toMatch(/perigee: SIG(TERM|INT), finishing/);
  });

  it("refuses a public address without a TLS proxy, and a folder in use", async () => {
    await expect(serve("--host", "0.0.0.0")).rejects.toThrow(/ended with 2: .*--behind-proxy/s);
    await serve("--host", "0.0.0.0", "--behind-proxy");
    await expect(serve()).rejects.toThrow(/ended with 74: .*data_dir_in_use/s);
  });

  it("takes a list of 60 MB in flat memory", { timeout: 120_000 }, async () => {
    const { headers } = await newKey();
    const { url, child } = await serve();
    const text = "Name a river that flows through two countries. ".repeat(10);
    const count = 120_000;
    const answer = await new Promise<{ total_items: number }>((resolve, reject) => {
      const sent = request(`${url}/v0/infer/`, { method: "POST", headers }, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () =>
          resolve(JSON.parse(Buffer.concat(chunks).toString()) as { total_items: number }),
        );
      });
      sent.on("error", reject);
      Readable.from(pieces(text, count)).pipe(sent);
    });
    expect(answer.total_items).toBe(count);
    const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1];
    expect(Number(peak) / 1_024).toBeLessThan(300);
  });

  it("writes nothing on standard output but its address, and no text of a user anywhere", async () => {
    const { headers } = await newKey();
    const { url, child, ended, stderr } = await serve();
    let stdout = "";
    child.stdout?.on("data", (chunk) => {
      stdout += chunk;
    });
    const canary = JSON.stringify([{ model: "echo:test", input: "canary" }]);
    await fetch(`${url}/v0/infer/?canary=1`, { method: "POST", headers, body: canary });
    await fetch(`${url}/v0/infer/`, { method: "POST", headers, body: '[{"canary' });
    child.kill("SIGTERM");
    await ended;
    expect(stdout).toBe("");
    expect(stderr()).not.toContain("canary");
  });
});
