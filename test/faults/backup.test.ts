/** Backups of a service at work, in whole processes: what was accepted before is there when it is restored elsewhere. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { commandIn } from "../cli/command.ts";
import { createKey, urlOf } from "./killed_service.ts";

const root = mkdtempSync(join(tmpdir(), "perigee-backup-"));
const children = new Set<ChildProcess>();
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  children.clear();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function serve(dataDir: string): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const child = spawn(process.execPath, [MAIN, "serve", "--port", "0", "--data", dataDir], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, PERIGEE_EGRESS_ALLOW: "127.0.0.0/8" },
  });
  children.add(child);
  const url = await urlOf(child);
  return {
    url,
    stop: async () => {
      child.kill("SIGTERM");
      await once(child, "exit");
      children.delete(child);
    },
  };
}

const perigee = (...words: string[]) =>
  commandIn(root, words, { env: { XDG_STATE_HOME: process.env["XDG_STATE_HOME"] } });

function caller(url: string, key: string) {
  const headers = { authorization: `Bearer ${key}` };
  return {
    put: async (name: string, text: string): Promise<string> => {
      const form = new FormData();
      form.set("file", new Blob([text]), name);
      const answer = await fetch(`${url}/v0/files/${name}`, { method: "PUT", headers, body: form });
      expect(answer.status).toBe(200);
      return ((await answer.json()) as { file_id: string }).file_id;
    },
    post: async (items: unknown): Promise<string> => {
      const answer = await fetch(`${url}/v0/infer/`, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json", "output-format": "jsonl" },
        body: JSON.stringify(items),
      });
      expect(answer.status).toBe(200);
      return ((await answer.json()) as { task_id: string }).task_id;
    },
    task: async (id: string): Promise<{ readonly status: string; readonly output_url: string }> => {
      for (;;) {
        const answer = await fetch(`${url}/v0/infer/task/${id}`, { headers });
        expect([id, answer.status]).toEqual([id, 200]);
        const task = (await answer.json()) as { status: string; output_url: string };
        if (task.status !== "submitted") return task;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    },
    output: async (address: string): Promise<string[]> => {
      const answer = await fetch(`${url}${new URL(address).pathname}`, { headers });
      expect([address, answer.status]).toEqual([address, 200]);
      return (await answer.text()).trimEnd().split("\n").sort();
    },
    file: async (id: string): Promise<string> =>
      (await fetch(`${url}/v0/files/${id}/content`, { headers })).text(),
  };
}

const item = (text: string) => ({ model: "echo:test", input: text, sla: 60 });
const line = (key: string) =>
  `${JSON.stringify({ key, request: { model: "echo:test", contents: [{ role: "user", parts: [{ text: key }] }] } })}\n`;

describe("a backup of a service at work", () => {
  it("has every task and file that was accepted before it began, restored elsewhere", async () => {
    const dataDir = join(root, "data");
    const key = await createKey(dataDir);
    const first = await serve(dataDir);
    const before = caller(first.url, key);
    const fileText = Array.from({ length: 500 }, (_, index) => line(`f${index}`)).join("");
    const fileId = await before.put("lines.jsonl", fileText);
    const ids = [await before.post([{ file_id: fileId, sla: 60 }])];
    ids.push(await before.post(Array.from({ length: 1_500 }, (_, index) => item(`large ${index}`))));
    for (let index = 0; index < 20; index += 1) ids.push(await before.post([item(`small ${index}`)]));
    let isBackedUp = false;
    const more = (async () => {
      for (let index = 0; !isBackedUp; index += 1) await before.post([item(`more ${index}`), item("and")]);
    })();
    const backup = join(root, "backup.tar");
    const child = spawn(process.execPath, [MAIN, "backup", dataDir, "--to", backup, "--json"], {
      stdio: "inherit",
    });
    const [code] = (await once(child, "exit")) as [number];
    isBackedUp = true;
    await more;
    expect(code).toBe(0);
    const outputs = new Map<string, string[]>();
    for (const id of ids) {
      const { output_url } = await before.task(id);
      outputs.set(id, await before.output(output_url));
    }
    await first.stop();

    const elsewhere = join(root, "elsewhere", "data");
    const restored = await perigee("restore", backup, "--data", elsewhere);
    expect([restored.stderr, restored.code]).toEqual([expect.stringContaining("are in"), 0]);
    rmSync(dataDir, { recursive: true });
    const second = await serve(elsewhere);
    const after = caller(second.url, key);
    expect(await after.file(fileId)).toBe(fileText);
    for (const id of ids) {
      const { status, output_url } = await after.task(id);
      expect([id, status]).toEqual([id, "completed"]);
      expect(await after.output(output_url)).toEqual(outputs.get(id));
    }
    await second.stop();
  }, 120_000);

  it("has executions that have ended and those that are pending, which go on elsewhere", async () => {
    const held: ServerResponse[] = [];
    const receiver = createServer((request, response) => {
      if (request.url === "/hang" && held.length === 0) held.push(response);
      else response.end("ok");
    });
    await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
    const { port } = receiver.address() as AddressInfo;
    const dataDir = join(root, "jobs");
    const key = await createKey(dataDir, { isBeta: true });
    const call = async (url: string, path: string, body?: object): Promise<Record<string, unknown>> => {
      const headers = { authorization: key, "content-type": "application/json" };
      const given = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
      const answer = await fetch(`${url}/v1/satellites/perigee/call-webhook/${path}`, { headers, ...given });
      expect(answer.status).toBe(200);
      return (await answer.json()) as Record<string, unknown>;
    };
    const first = await serve(dataDir);
    const submit = (path: string) =>
      call(first.url, "", {
        ...{ input: {}, sla: "1h" },
        config: { url: `http://127.0.0.1:${port}/${path}`, method: "PUT" },
      });
    const [done, pending] = [await submit("ok"), await submit("hang")].map(
      ({ execution_id: id }) => `${id}/`,
    );
    const until = async (url: string, path: string, isIt: (status: unknown) => boolean): Promise<object> => {
      for (;;) {
        const view = await call(url, path);
        if (isIt(view["status"])) return view;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    };
    const before = await until(first.url, done ?? "", (status) => status === "completed");
    while (held.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    const backup = join(root, "jobs.tar");
    const child = spawn(process.execPath, [MAIN, "backup", dataDir, "--to", backup], { stdio: "ignore" });
    expect(await once(child, "exit")).toEqual([0, null]);
    await first.stop();
    const elsewhere = join(root, "jobs-elsewhere");
    expect((await perigee("restore", backup, "--data", elsewhere)).code).toBe(0);
    const second = await serve(elsewhere);
    expect(await call(second.url, done ?? "")).toEqual(before);
    const after = await until(second.url, pending ?? "", (status) => status !== "pending");
    expect(after).toMatchObject({ status: "completed", output: { status: 200 }, retries: 1 });
    await second.stop();
    receiver.closeAllConnections();
    receiver.close();
  }, 60_000);

  it("is refused when it is cut or changed, and leaves no folder", async () => {
    const dataDir = join(root, "small");
    writeFileSync(join(root, "in.jsonl"), line("a"));
    const out = join(root, "out.jsonl");
    expect((await perigee("run", join(root, "in.jsonl"), "--out", out, "--data", dataDir)).code).toBe(0);
    const backup = join(root, "small.tar");
    expect((await perigee("backup", dataDir, "--to", backup)).code).toBe(0);
    const bytes = readFileSync(backup);
    const elsewhere = join(root, "small-elsewhere");
    writeFileSync(join(root, "cut.tar"), bytes.subarray(0, bytes.length - 4_096));
    const changed = Buffer.from(bytes);
    changed[2_048] = (changed[2_048] ?? 0) ^ 1;
    writeFileSync(join(root, "changed.tar"), changed);
    for (const name of ["cut.tar", "changed.tar"]) {
      const refused = await perigee("restore", join(root, name), "--data", elsewhere);
      expect([name, refused.code, refused.stderr]).toEqual([
        name,
        74,
        expect.stringContaining("is not a complete backup"),
      ]);
      expect(existsSync(elsewhere)).toBe(false);
    }
    expect((await perigee("restore", backup, "--data", elsewhere)).code).toBe(0);
    const again = await perigee("run", join(root, "in.jsonl"), "--out", out, "--data", elsewhere, "--json");
    expect([again.code, JSON.parse(again.stdout)]).toEqual([
      0,
      expect.objectContaining({ requests_sent: 0 }),
    ]);
    appendFileSync(out, "more\n");
    const repaired = await perigee("repair", out, "--data", elsewhere, "--json");
    expect([repaired.code, JSON.parse(repaired.stdout)]).toEqual([0, { output: out, kept: 1, lost: 0 }]);
    expect(readFileSync(out, "utf8").split("\n")).toHaveLength(2);
    expect((await perigee("backup", dataDir, "--to", backup)).stderr).toContain(
      "exists; choose another name for the backup",
    );
  }, 60_000);
});
