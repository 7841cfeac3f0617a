/**
 * Programs that use the AI SDK on perigee, killed in the middle of their calls and started again: what was answered is not asked again,
 * what was in flight at most once more; through a service nothing is.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { compiledProgram } from "../compiled_program.ts";
import { createKey, urlOf } from "./killed_service.ts";

const PROGRAM = fileURLToPath(new URL("ai_program.ts", import.meta.url));
const CALLS = 40;
const IN_FLIGHT = 8;
/** After the first limit of a provider that was never asked. */
const ANSWER_MS = 60;

let compiled: string;
let program: string;
beforeAll(() => {
  compiled = mkdtempSync(join(tmpdir(), "perigee-ai-program-"));
  program = compiledProgram(PROGRAM, compiled, ["ai"]);
});
afterAll(() => rmSync(compiled, { recursive: true, force: true }));

let dir: string;
/** How often each call was asked for, by its number from 1. */
let asked: number[];
/** Resolves when so many requests have arrived. */
let untilAsked: (count: number) => Promise<void>;
let providerUrl: string;
let closeProvider: () => Promise<void>;
let children: ChildProcess[];

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "perigee-ai-kills-"));
  asked = Array.from({ length: CALLS + 1 }, () => 0);
  children = [];
  const waiting: { readonly count: number; readonly resolve: () => void }[] = [];
  untilAsked = (count) =>
    new Promise((resolve) => (total() >= count ? resolve() : void waiting.push({ count, resolve })));
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += String(chunk);
    });
    request.on("end", () => {
      const calls = Array.from(body.matchAll(/\[\[(\d+)\]\]/g), ([, number]) => Number(number));
      for (const call of calls) asked[call] = (asked[call] ?? 0) + 1;
      for (const each of waiting) if (total() >= each.count) each.resolve();
      setTimeout(() => {
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify(request.url === "/v1/embeddings" ? vectorsOf(calls) : textOf(calls[0])));
      }, ANSWER_MS);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  providerUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  closeProvider = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  };
});

const textOf = (call: number | undefined) => ({
  id: "c",
  choices: [{ message: { role: "assistant", content: `answer ${call}` }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 2 },
});
const vectorsOf = (calls: readonly number[]) => ({
  object: "list",
  data: calls.map((call, index) => ({ object: "embedding", index, embedding: [call, 0.5] })),
  usage: { prompt_tokens: 5 * calls.length, total_tokens: 5 * calls.length },
});

afterEach(async () => {
  for (const child of children) if (child.exitCode === null) child.kill("SIGKILL");
  await closeProvider();
  rmSync(dir, { recursive: true, force: true });
});

const env = () => ({
  ...process.env,
  PERIGEE_PROVIDER_LOCAL_BASE_URL: providerUrl,
  PERIGEE_MAX_INFLIGHT: String(IN_FLIGHT),
});

interface Program {
  readonly child: ChildProcess;
  /** Numbers of the calls that it had an answer of. */
  readonly answered: number[];
  readonly ended: Promise<unknown>;
  stderr: string;
}

type Kind = "chat" | "embedding";

function start(source: string, sla: number, kind: Kind): Program {
  const terms = [source, String(CALLS), String(sla), kind];
  const child = spawn(process.execPath, [program, ...terms], {
    stdio: ["ignore", "pipe", "pipe"],
    env: env(),
  });
  children.push(child);
  const answered: number[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { call, text } = JSON.parse(line) as { call: number; text: string };
    expect(text).toBe(`answer ${call}`);
    answered.push(call);
  });
  const started: Program = { child, answered, ended: once(child, "close"), stderr: "" };
  child.stderr.on("data", (chunk: Buffer) => {
    started.stderr += String(chunk);
  });
  return started;
}

const all = Array.from({ length: CALLS }, (_, index) => index + 1);
const total = (): number => asked.reduce((sum, times) => sum + times, 0);

/** Inputs of one request at most, as the program configures them. */
const PACKED = { chat: 1, embedding: 2 } as const;

describe.each([
  ["chat", 0],
  ["chat", 60],
  ["embedding", 0],
] as const)("a program of %s calls with an sla of %s, whose engine is in it", (kind, sla) => {
  it("killed twice asks for no answer again, and for what was in flight once more", async () => {
    const source = join(dir, "data");
    /** How often each call had been asked for when a program had its answer and was killed. */
    const known = new Map<number, number | undefined>();
    for (let kill = 1; kill <= 2; kill += 1) {
      const killed = start(source, sla, kind);
      await untilAsked(kill * 14);
      killed.child.kill("SIGKILL");
      await killed.ended;
      for (const call of killed.answered) if (!known.has(call)) known.set(call, asked[call]);
      expect(total()).toBeLessThan(CALLS);
    }
    expect(known.size).toBeGreaterThan(0);
    const last = start(source, sla, kind);
    await last.ended;
    expect(last.stderr).toBe("");
    expect(last.answered.sort((a, b) => a - b)).toEqual(all);
    for (const [call, times] of known) expect(asked[call]).toBe(times);
    expect(total()).toBeLessThanOrEqual(CALLS + 2 * IN_FLIGHT * PACKED[kind]);
  });
});

describe("programs before a service", () => {
  it("killed and started again cause nothing to be asked for again, at once, with an sla, and for embeddings", async () => {
    const data = join(dir, "data");
    const key = createKey(data);
    const service = spawn(process.execPath, [MAIN, "serve", "--port", "0", "--data", data], {
      stdio: ["ignore", "pipe", "ignore"],
      env: env(),
    });
    children.push(service);
    const source = `${await urlOf(service)}#${key}`;
    const rounds = [
      ["chat", 0],
      ["chat", 60],
      ["embedding", 0],
    ] as const;
    for (const [round, [kind, sla]] of rounds.entries()) {
      const first = start(source, sla, kind);
      await untilAsked(round * CALLS + 14);
      first.child.kill("SIGKILL");
      await first.ended;
      const last = start(source, sla, kind);
      await last.ended;
      expect(last.stderr).toBe("");
      expect(last.answered.sort((a, b) => a - b)).toEqual(all);
      expect(asked.slice(1)).toEqual(all.map(() => round + 1));
    }
    const closed = once(service, "close");
    service.kill("SIGTERM");
    await closed;
  });
});
