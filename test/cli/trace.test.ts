/**
 * `perigee trace` and PERIGEE_DEBUG, as processes.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ItemTrace } from "../../src/index.ts";
import { MAIN } from "../built.ts";
import { type Desk, openDesk, question } from "./command.ts";

let desk: Desk;
let provider: Server;
let env: Record<string, string>;
/** By the prompt. */
let seen: Map<string, number>;
beforeEach(async () => {
  desk = openDesk();
  seen = new Map();
  provider = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on("end", () => {
      const prompt = /hang|busy|fine/.exec(body)?.[0] ?? "";
      const times = (seen.get(prompt) ?? 0) + 1;
      seen.set(prompt, times);
      if (prompt === "hang" && times === 1) return;
      const isBusy = prompt === "busy" && times === 1;
      response.writeHead(isBusy ? 503 : 200, { "content-type": "application/json" });
      response.end('{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}');
    });
  });
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  const { port } = provider.address() as AddressInfo;
  env = { PERIGEE_PROVIDER_LOCAL_BASE_URL: `http://127.0.0.1:${port}/v1` };
});
afterEach(() => {
  provider.closeAllConnections();
  provider.close();
  desk.remove();
});

async function traced(key: string): Promise<ItemTrace> {
  const { code, stdout, stderr } = await desk.perigee(["trace", "out.jsonl", key, "--json"]);
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as ItemTrace;
}

const eventsOf = ({ events }: ItemTrace): string[] => events.map(({ event }) => event);

describe("perigee trace", () => {
  it("tells the life of an item while its run works, after a kill, and at the end", async () => {
    desk.write("in.jsonl", [question("a", "fine", "local:m"), question("b", "hang", "local:m")]);
    const child = spawn(process.execPath, [MAIN, "run", "in.jsonl", "--out", "out.jsonl"], {
      cwd: desk.dir,
      stdio: "ignore",
      env: { ...env, PATH: process.env["PATH"], XDG_STATE_HOME: `${desk.dir}/state` },
    });
    for (let waitedMs = 0; seen.size < 2 && waitedMs < 20_000; waitedMs += 20) await sleep(20);
    const under = await traced("b");
    expect([under.status, eventsOf(under)]).toEqual(["open", ["accepted", "admitted", "waiting"]]);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(eventsOf(await traced("b"))).toEqual(["accepted", "admitted", "waiting"]);
    await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl"], { env });
    const over = await traced("b");
    expect([over.line, over.status]).toEqual([2, "completed"]);
    expect(eventsOf(over)).toEqual(["accepted", "admitted", "in doubt", "admitted", "committed", "written"]);
    const { stdout } = await desk.perigee(["trace", "out.jsonl", "b"]);
    expect(stdout).toMatch(/^b \(line 2\): completed\n/);
    expect(stdout).toMatch(/^\d{4}-\S+Z {2}admitted {3}request 2: local:realtime:m: reserved \d+ input/m);
    expect(stdout).toMatch(/^\d{4}-\S+Z {2}written {4}bytes \d+ to \d+ of .*out\.jsonl; model: local:m/m);
  });

  it("refuses a key and an output that it does not know", async () => {
    desk.write("in.jsonl", [question("a")]);
    await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl"]);
    const key = await desk.perigee(["trace", "out.jsonl", "z"]);
    expect([key.code, key.stdout]).toEqual([2, ""]);
    expect(key.stderr).toContain('no line of the run has the key "z"');
    expect((await desk.perigee(["trace", "other.jsonl", "a"])).code).not.toBe(0);
  });
});

describe("PERIGEE_DEBUG", () => {
  it("logs the decisions that it names on standard error, and nothing without it", async () => {
    desk.write("in.jsonl", [question("a", "busy", "local:m")]);
    const words = ["run", "in.jsonl", "--out", "out.jsonl", "--json"];
    const { code, stdout, stderr } = await desk.perigee(words, {
      env: { ...env, PERIGEE_DEBUG: "queue,attempts" },
    });
    expect([code, stdout.split("\n").length]).toEqual([0, 2]);
    expect(stderr).toMatch(/^\d{4}-\S+Z queue: line 1 of \S+: request 1 to local:m in local:realtime:m$/m);
    expect(stderr).toMatch(/^\d{4}-\S+Z attempts: \S+ after request 1: repeated after \d+ ms$/m);
    expect(stderr).not.toMatch(/ commits: /);
    const quiet = await desk.perigee(["run", "in.jsonl", "--out", "quiet.jsonl"], { env });
    expect(quiet.stderr).not.toMatch(/Z (queue|attempts): /);
  });

  it("is refused with an unknown word, and the one that was meant", async () => {
    desk.write("in.jsonl", [question("a")]);
    const words = ["run", "in.jsonl", "--out", "out.jsonl"];
    const { code, stderr } = await desk.perigee(words, { env: { PERIGEE_DEBUG: "queue,limit" } });
    expect(code).toBe(2);
    expect(stderr).toContain('PERIGEE_DEBUG: "limit" is not a known word; did you mean "limits"?');
  });
});
