/**
 * What is acknowledged is on the disk: seen from outside the process, in the calls that it makes to the operating system.
 *
 * No fake can show it: SQLite syncs its log itself (`PRAGMA synchronous = FULL`), and a kill that leaves the machine
 * running loses nothing that was written. `strace` says in which order files are written and synced and requests leave.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { type Desk, openDesk, question } from "../cli/command.ts";
import { describeCounterpart, pathOf } from "../counterpart.ts";

const CALLS = "trace=fsync,fdatasync,pwrite64,write,writev,sendto";
const ANSWER = JSON.stringify({
  id: "x",
  object: "chat.completion",
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

let desk: Desk;
let server: Server;
beforeEach(async () => {
  desk = openDesk({ ownProcesses: true });
  server = createServer((request, response) => {
    request.resume().on("end", () => response.setHeader("content-type", "application/json").end(ANSWER));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
});
afterEach(() => {
  server.close();
  desk.remove();
});

interface Traced {
  /** Of each request, the files with writes that were not synced when it left. */
  readonly dirtyAtSends: readonly (readonly string[])[];
  readonly dirtyAtEnd: readonly string[];
  /** How often each file was synced. */
  readonly syncs: ReadonlyMap<string, number>;
}

/** Reads a log of strace: one call a line, or two where another thread was in between. */
function readLog(log: string): Traced {
  const dirty = new Map<string, number>();
  const syncs = new Map<string, number>();
  const begun = new Map<string, { readonly file: string; readonly line: number }>();
  const dirtyAtSends: string[][] = [];
  for (const [line, text] of log.split("\n").entries()) {
    const [, pid = "", rest = ""] = /^(\d+) +(.*)$/.exec(text) ?? [];
    const [, call = "", file = ""] = /^(\w+)\(\d+<([^>]*)>/.exec(rest) ?? [];
    if (/POST \/v1/.test(rest)) dirtyAtSends.push([...dirty.keys()]);
    if (/sync$/.test(call)) begun.set(pid, { file, line });
    if (/sync/.test(rest) && / = 0$/.test(rest)) {
      const sync = begun.get(pid);
      if (sync === undefined) continue;
      syncs.set(sync.file, (syncs.get(sync.file) ?? 0) + 1);
      if ((dirty.get(sync.file) ?? 0) < sync.line) dirty.delete(sync.file);
    }
    if (/^p?write/.test(call) && /sqlite-wal$|out\.jsonl$/.test(file)) dirty.set(file, line);
  }
  return { dirtyAtSends, dirtyAtEnd: [...dirty.keys()], syncs };
}

async function trace(words: readonly string[]): Promise<Traced> {
  const log = join(desk.dir, "calls");
  const { port } = server.address() as AddressInfo;
  const child = spawn(
    "strace",
    ["-f", "-y", "-s", "12", "-e", CALLS, "-o", log, process.execPath, MAIN, ...words],
    {
      cwd: desk.dir,
      stdio: "ignore",
      env: {
        PATH: process.env["PATH"],
        PERIGEE_PROVIDER_MINE_BASE_URL: `http://127.0.0.1:${port}/v1`,
        PERIGEE_LIMIT_MINE_CONCURRENCY: "1",
      },
    },
  );
  expect(await once(child, "exit")).toEqual([0, null]);
  return readLog(readFileSync(log, "utf8"));
}

describeCounterpart(
  "strace",
  { isThere: pathOf("strace") !== undefined, install: "apt-get install strace" },
  () => {
    it("shows that a run sends nothing before its journal and the answers before it are synced, and ends with everything synced", async () => {
      const keys = ["a", "b", "c", "d", "e"];
      const input = desk.write(
        "in.jsonl",
        keys.map((key) => question(key, key, "mine:m")),
      );
      const traced = await trace(["run", input, "--out", "out.jsonl", "--no-learn"]);
      expect(traced.dirtyAtSends).toEqual(keys.map(() => []));
      expect(traced.dirtyAtEnd).toEqual([]);
      const journal = join(desk.dir, "out.jsonl.perigee", "journal.sqlite-wal");
      expect(traced.syncs.get(journal)).toBeGreaterThan(keys.length);
      expect(traced.syncs.get(join(desk.dir, "out.jsonl"))).toBeGreaterThanOrEqual(keys.length);
    });
  },
);
