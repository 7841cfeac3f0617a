/**
 * The built command in a folder of its own, against a local provider that keeps a book: for tests that kill it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { MAIN } from "../built.ts";

/** How the provider treats a request. */
export interface Treatment {
  readonly afterMs: number;
  readonly status?: number;
  readonly retryAfter?: string;
}

/** What a command is started with. */
export interface Start {
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Default: `in.jsonl`. */
  readonly input?: string;
  readonly options?: readonly string[];
}

/** What an answer says that it took. */
export const USAGE = { prompt_tokens: 5, completion_tokens: 2 };

export class KilledRuns {
  folder = mkdtempSync(join(tmpdir(), "perigee-faults-"));
  /** Numbers of lines in the order in which their requests came. */
  asked: number[] = [];
  /** By the request's number from 1, and its line. */
  treat: (request: number, line: number) => Treatment = () => ({ afterMs: 20 });
  /** Called for each request before it is answered. */
  onAsked: () => void = () => undefined;
  readonly #server: Server;
  readonly #children: ChildProcess[] = [];
  /** Of the provider. */
  address = "";

  constructor() {
    this.#server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => {
        body += chunk.toString();
      });
      request.on("end", () => {
        const line = Number(/\[\[(\d+)\]\]/.exec(body)?.[1]);
        this.asked.push(line);
        this.onAsked();
        const { afterMs, status = 200, retryAfter } = this.treat(this.asked.length, line);
        setTimeout(() => {
          const headers = { "content-type": "application/json" };
          response.writeHead(
            status,
            retryAfter === undefined ? headers : { ...headers, "retry-after": retryAfter },
          );
          response.end(JSON.stringify(status === 200 ? answerTo(line) : refusal(status)));
        }, afterMs);
      });
    });
  }

  async listen(): Promise<void> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.address = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  close(): void {
    for (const child of this.#children.splice(0)) if (child.exitCode === null) child.kill("SIGKILL");
    this.#server.closeAllConnections();
    this.#server.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** An empty folder, and an empty book. */
  clear(): void {
    rmSync(this.folder, { recursive: true, force: true });
    this.folder = mkdtempSync(join(tmpdir(), "perigee-faults-"));
    this.asked = [];
  }

  /** Lines of these numbers; a text of its own makes a line another one. */
  write(lines: readonly number[], config: object = {}, text: (line: number) => string = () => "hello"): void {
    const written = lines.map((line) => lineOf(line, config, text(line)));
    writeFileSync(join(this.folder, "in.jsonl"), `${written.join("\n")}\n`);
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  start({ env = {}, input = this.path("in.jsonl"), options = [] }: Start = {}): ChildProcess {
    const words = [MAIN, "run", input, "--out", this.path("out.jsonl"), "--json", ...options];
    const child = spawn(process.execPath, words, {
      env: {
        PATH: process.env["PATH"],
        XDG_STATE_HOME: process.env["XDG_STATE_HOME"],
        PERIGEE_PROVIDER_LOCAL_BASE_URL: this.address,
        ...env,
      },
    });
    this.#children.push(child);
    child.stderr?.resume();
    return child;
  }

  /** Starts it, and kills it when so many requests more have come. Returns how many; 0 when it ended before. */
  async kill(requests: number, start: Start = {}): Promise<number> {
    const before = this.asked.length;
    const child = this.start(start);
    const closed = end(child);
    await until(() => this.asked.length >= before + requests || child.exitCode !== null);
    child.kill("SIGKILL");
    await closed;
    return this.asked.length - before;
  }

  keys(): string[] {
    return this.lines().map(({ key }) => key);
  }

  lines(): { readonly key: string; readonly output: { readonly text: string } | null }[] {
    const text = readFileSync(this.path("out.jsonl"), "utf8");
    return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
  }
}

export function linesUpTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

export function lineOf(line: number, config: object = {}, text = "hello"): string {
  const contents = [{ parts: [{ text: `[[${line}]] ${text}` }] }];
  const generation_config = Object.keys(config).length === 0 ? {} : { generation_config: config };
  return JSON.stringify({ key: `k${line}`, request: { model: "local:m1", contents, ...generation_config } });
}

export async function end(
  child: ChildProcess,
): Promise<{ readonly code: number | null; readonly stdout: string }> {
  let stdout = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  await once(child, "close");
  return { code: child.exitCode, stdout };
}

export async function until(isTrue: () => boolean): Promise<void> {
  for (let waited = 0; waited < 10_000 && !isTrue(); waited += 5) await sleep(5);
}

function answerTo(line: number): object {
  const message = { content: `answer ${line}` };
  return { choices: [{ message, finish_reason: "stop" }], usage: USAGE };
}

function refusal(status: number): object {
  return { error: { message: "no", code: status === 429 ? "rate_limit_exceeded" : "refused" } };
}
