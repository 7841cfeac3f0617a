/**
 * A service that is killed keeps what its page shows of the last day.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { loadSqlite } from "../../src/store/sqlite_database.ts";
import { MAIN } from "../built.ts";
import { createKey, urlOf } from "./killed_service.ts";

/** A minute of the service, so that its history is written after a quarter of a second. */
const FAST = `data:text/javascript,${encodeURIComponent(
  "const plain = setTimeout; globalThis.setTimeout = (call, ms, ...more) => plain(call, ms === 60_000 ? 250 : ms, ...more);",
)}`;

let dir: string;
let children: ChildProcess[];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "perigee-history-kills-"));
  children = [];
});

afterEach(() => {
  for (const child of children) if (child.exitCode === null) child.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

async function serve(key: string) {
  const args = ["--import", FAST, MAIN, "serve", "--port", "0", "--data", dir];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] });
  children.push(child);
  const url = await urlOf(child);
  const call = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(url + path, {
      ...init,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    });
  const ask = async (items: number): Promise<void> => {
    const body = JSON.stringify(Array.from({ length: items }, () => ({ model: "echo:e", input: "hello" })));
    expect((await call("/v0/infer/", { method: "POST", body })).status).toBe(200);
  };
  return { child, call, ask };
}

/** Items of the last day, as the page hears of them first. */
async function itemsShown(call: (path: string) => Promise<Response>): Promise<number> {
  const response = await call("/v0/operator/events");
  let text = "";
  for await (const bytes of response.body ?? []) {
    text += Buffer.from(bytes).toString();
    const day = /event: day\ndata: (.*)\n\n/.exec(text)?.[1];
    if (day === undefined) continue;
    const { items } = JSON.parse(day) as { items: number[] };
    return items.reduce((sum, each) => sum + each, 0);
  }
  throw new Error("the feed ended");
}

/** Items that the data folder has in its history, read from a copy: the service holds the lock. A torn copy is tried again. */
async function itemsStored(): Promise<number> {
  const copy = mkdtempSync(join(dir, "copy-"));
  for (const name of ["journal.sqlite", "journal.sqlite-wal"])
    copyFileSync(join(dir, name), join(copy, name));
  const database = (await loadSqlite())(join(copy, "journal.sqlite"));
  try {
    const rows = database.prepare("SELECT body FROM records WHERE collection = 'activity'").all() as {
      body: string;
    }[];
    const sums = rows.map(({ body }) => (JSON.parse(body) as { items: number[] }).items);
    return sums.flat().reduce((sum, each) => sum + each, 0);
  } finally {
    database.close();
  }
}

it("what a killed service had written of the last day is shown by the next one, which goes on with it", async () => {
  const key = await createKey(dir);
  const first = await serve(key);
  await first.ask(3);
  await vi.waitFor(async () => expect(await itemsStored()).toBe(3), { timeout: 20_000, interval: 250 });
  first.child.kill("SIGKILL");
  await once(first.child, "exit");

  const second = await serve(key);
  expect(await itemsShown(second.call)).toBe(3);
  await second.ask(2);
  expect(await itemsShown(second.call)).toBe(5);
  await vi.waitFor(async () => expect(await itemsStored()).toBe(5), { timeout: 20_000, interval: 250 });
  second.child.kill("SIGTERM");
  await once(second.child, "exit");
}, 60_000);
