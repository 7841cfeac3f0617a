/**
 * The built command against a local provider, with real signals and real kills.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";

const ITEMS = 400;

/** How the provider treats a request, by its number from 1. */
type Treatment = { readonly afterMs: number; readonly status?: number; readonly retryAfter?: string };

let folder: string;
let server: Server;
let address: string;
/** Keys in the order in which their requests came, and in which answers were sent. */
let asked: number[];
let treat: (request: number) => Treatment;
const children: ChildProcess[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "perigee-faults-"));
  asked = [];
  treat = () => ({ afterMs: 20 });
  server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on("end", () => {
      const line = Number(/\[\[(\d+)\]\]/.exec(body)?.[1]);
      asked.push(line);
      const { afterMs, status = 200, retryAfter } = treat(asked.length);
      setTimeout(() => {
        const headers = { "content-type": "application/json" };
        response.writeHead(
          status,
          retryAfter === undefined ? headers : { ...headers, "retry-after": retryAfter },
        );
        const message = { content: `answer ${line}` };
        response.end(
          JSON.stringify(
            status === 200
              ? {
                  choices: [{ message, finish_reason: "stop" }],
                  usage: { prompt_tokens: 5, completion_tokens: 2 },
                }
              : { error: { message: "no", code: "rate_limit_exceeded" } },
          ),
        );
      }, afterMs);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
});

afterEach(async () => {
  for (const child of children.splice(0)) if (child.exitCode === null) child.kill("SIGKILL");
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

function writeInput(count: number): void {
  writeFileSync(join(folder, "in.jsonl"), `${linesOf(count).join("\n")}\n`);
}

function linesOf(count: number): string[] {
  return Array.from({ length: count }, (_, index) => {
    const contents = [{ parts: [{ text: `[[${index + 1}]] hello` }] }];
    return JSON.stringify({ key: `k${index + 1}`, request: { model: "local:m1", contents } });
  });
}

function start(
  env: Readonly<Record<string, string>> = {},
  input: string = join(folder, "in.jsonl"),
  options: readonly string[] = [],
): ChildProcess {
  const words = [MAIN, "run", input, "--out", join(folder, "out.jsonl"), "--json", ...options];
  const child = spawn(process.execPath, words, {
    env: {
      PATH: process.env["PATH"],
      XDG_STATE_HOME: process.env["XDG_STATE_HOME"],
      PERIGEE_PROVIDER_LOCAL_BASE_URL: address,
      ...env,
    },
  });
  children.push(child);
  child.stderr?.resume();
  return child;
}

async function end(child: ChildProcess): Promise<{ readonly code: number | null; readonly stdout: string }> {
  let stdout = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  await once(child, "close");
  return { code: child.exitCode, stdout };
}

async function until(isTrue: () => boolean): Promise<void> {
  for (let waited = 0; waited < 10_000 && !isTrue(); waited += 5) await sleep(5);
}

function keys(): string[] {
  const text = readFileSync(join(folder, "out.jsonl"), "utf8");
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => (JSON.parse(line) as { key: string }).key);
}

describe("the command", () => {
  it("killed again and again, wherever it is, answers each key once, and re-sends no more than was in flight", async () => {
    writeInput(ITEMS);
    const inFlightMax = 16;
    const env = { PERIGEE_MAX_INFLIGHT: String(inFlightMax) };
    let kills = 0;
    for (let kill = 0; kill < 6; kill += 1) {
      const before = asked.length;
      const child = start(env);
      const closed = end(child);
      await until(() => asked.length > before + 40 || child.exitCode !== null);
      await sleep(kill * 7);
      if (child.exitCode !== null) break;
      child.kill("SIGKILL");
      kills += 1;
      await closed;
    }
    expect(await end(start(env))).toMatchObject({ code: 0 });
    expect(kills).toBeGreaterThan(3);
    expect(keys()).toHaveLength(ITEMS);
    expect(new Set(keys()).size).toBe(ITEMS);
    expect(asked.length).toBeLessThanOrEqual(ITEMS + kills * inFlightMax);
    const sent = asked.length;
    expect(await end(start(env))).toMatchObject({ code: 0 });
    expect(asked).toHaveLength(sent);
  });

  it("killed five times under a cap, tells the provider's own book within what is in doubt", async () => {
    writeInput(ITEMS);
    const models = { "local:*": { input_mtok: 100, output_mtok: 1 } };
    writeFileSync(join(folder, "prices.json"), JSON.stringify({ version: "2026-11-20", models }));
    const options = ["--max-cost", "1", "--prices", join(folder, "prices.json")];
    const begin = (): ChildProcess => start({ PERIGEE_MAX_INFLIGHT: "16" }, undefined, options);
    for (let kill = 0; kill < 5; kill += 1) {
      const before = asked.length;
      const child = begin();
      const closed = end(child);
      await until(() => asked.length > before + 40 || child.exitCode !== null);
      child.kill("SIGKILL");
      await closed;
    }
    const { code, stdout } = await end(begin());
    expect(code).toBe(0);
    const { billed_usd, ambiguous_usd, is_estimated, prices } = JSON.parse(stdout).cost;
    const bookUsd = (asked.length * (5 * 100 + 2 * 1)) / 1e6;
    expect(asked.length).toBeGreaterThan(ITEMS);
    expect(billed_usd).toBeLessThanOrEqual(bookUsd + 1e-9);
    expect(bookUsd).toBeLessThanOrEqual(billed_usd + ambiguous_usd + 1e-9);
    expect(billed_usd + ambiguous_usd).toBeLessThanOrEqual(1);
    expect(is_estimated).toBe(true);
    expect(prices).toEqual([expect.objectContaining({ source: "sheet 2026-11-20" })]);
  }, 120_000);

  it("fault 32: at SIGTERM finishes what is in flight, ends with 130, and sends only the rest when it is called again", async () => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      rmSync(folder, { recursive: true, force: true });
      folder = mkdtempSync(join(tmpdir(), "perigee-faults-"));
      asked = [];
      treat = () => ({ afterMs: 100 });
      writeInput(100);
      const child = start({ PERIGEE_MAX_INFLIGHT: "8" });
      const closed = end(child);
      await until(() => asked.length >= 20);
      child.kill(signal);
      const { code, stdout } = await closed;
      expect(code, signal).toBe(130);
      const { counts } = JSON.parse(stdout) as { counts: { completed: number; submitted: number } };
      expect(counts.completed, signal).toBe(asked.length);
      expect(counts.submitted, signal).toBe(100 - asked.length);
      expect(await end(start())).toMatchObject({ code: 0 });
      expect(asked, signal).toHaveLength(100);
    }
  });

  it("fault 32: does not wait for retries that are due in minutes", async () => {
    treat = () => ({ afterMs: 1, status: 429, retryAfter: "600" });
    writeInput(3);
    const child = start();
    const closed = end(child);
    await until(() => asked.length > 0);
    await sleep(200);
    const atMs = Date.now();
    child.kill("SIGTERM");
    expect(await closed).toMatchObject({ code: 130 });
    expect(Date.now() - atMs).toBeLessThan(5_000);
  });

  it("fault 32: ends at once at a second signal, and continues later", async () => {
    treat = () => ({ afterMs: 20_000 });
    writeInput(3);
    const child = start();
    const closed = end(child);
    await until(() => asked.length === 3);
    child.kill("SIGTERM");
    await sleep(300);
    const atMs = Date.now();
    child.kill("SIGTERM");
    expect(await closed).toMatchObject({ code: 130 });
    expect(Date.now() - atMs).toBeLessThan(2_000);
    treat = () => ({ afterMs: 1 });
    expect(await end(start())).toMatchObject({ code: 0 });
    expect(keys().sort()).toEqual(["k1", "k2", "k3"]);
  });

  it("fault 17: keeps every answer under way when its input turns out to be broken", async () => {
    treat = () => ({ afterMs: 1_000 });
    const child = start({}, "-");
    const closed = end(child);
    child.stdin?.write(`[${linesOf(8).join(",\n")},\n`);
    await until(() => asked.length === 8);
    child.stdin?.end("no element");
    const { code, stdout } = await closed;
    expect({ code, answers: keys().length }).toEqual({ code: 74, answers: 8 });
    expect(JSON.parse(stdout)).toMatchObject({ error: { code: "invalid_array" } });
    const again = start({}, "-");
    again.stdin?.end(`[${linesOf(9).join(",\n")}]\n`);
    expect(await end(again)).toMatchObject({ code: 0 });
    expect(asked).toHaveLength(9);
  });

  it("fault 34: refuses a data folder that another one holds, and leaves that one alone", async () => {
    treat = () => ({ afterMs: 1_500 });
    writeInput(3);
    const first = start();
    const closed = end(first);
    await until(() => asked.length === 3);
    const second = await end(start());
    expect(second.code).toBe(74);
    expect(JSON.parse(second.stdout)).toMatchObject({ error: { code: "data_dir_in_use" } });
    expect(await closed).toMatchObject({ code: 0 });
    expect(asked).toHaveLength(3);
  });
});
