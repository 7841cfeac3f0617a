/**
 * Outages of 20 seconds over real connections: nothing ends for them, and nothing is sent more often than it must be.
 *
 * All kinds and crowds are at work at the same time: each crowd has a provider of its own, each kind an engine.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { type Engine, openEngine } from "../../src/engine/engine.ts";
import { question } from "../cli/command.ts";

const OUT_AFTER_MS = 1_500;
const OUT_MS = 20_000;

type Fault = (response: ServerResponse) => void;

function refusal(status: number, code: string): Fault {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify({ error: { message: "not now", code } }));
  };
}

const KINDS: Readonly<Record<string, Fault>> = {
  refused: () => undefined, // it does not listen
  reset: (response) => void response.socket?.resetAndDestroy(),
  "502": refusal(502, "bad_gateway"),
  "503": refusal(503, "unavailable"),
  "429": refusal(429, "rate_limit_exceeded"),
  "401": refusal(401, "invalid_api_key"),
  hang: () => undefined,
};

/** A provider that is out for a while; how often each key was asked for after that. */
async function provider(kind: string) {
  const afterwards = new Map<string, number>();
  let state: "up" | "out" | "back" = "up";
  const server: Server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      if (state === "out") return (KINDS[kind] as Fault)(response);
      const key = /key-\d+/.exec(body)?.[0] ?? "";
      if (state === "back") afterwards.set(key, (afterwards.get(key) ?? 0) + 1);
      const message = { role: "assistant", content: key };
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ choices: [{ message, finish_reason: "stop" }], usage: {} }));
    });
  });
  const listen = (port: number): Promise<void> =>
    new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const stop = (): void => {
    server.closeAllConnections();
    server.close();
  };
  onTestFinished(stop);
  return {
    url: `http://127.0.0.1:${port}/v1`,
    afterwards,
    fail: () => {
      state = "out";
      if (kind === "refused") stop();
    },
    mend: async () => {
      state = "back";
      if (kind === "refused") await listen(port);
    },
  };
}

const COUNTS = [1, 40, 500] as const;

/** What each crowd comes to in an outage of this kind. */
async function outagesOf(kind: string): Promise<object[]> {
  const dir = mkdtempSync(join(tmpdir(), `perigee-out-${kind}-`));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const crowds = await Promise.all(
    COUNTS.map(async (count) => ({ count, name: `crowd${count}`, upstream: await provider(kind) })),
  );
  const { engine } = await openEngine({
    dataDir: join(dir, "data"),
    env: {},
    threads: 1,
    providers: Object.fromEntries(
      crowds.map(({ name, upstream }) => [name, { baseUrl: upstream.url, timeoutMs: 5_000 }]),
    ),
    // So slow that most of the crowd is left when the provider fails.
    limits: Object.fromEntries(crowds.map(({ name }) => [name, { requestsPerMinute: 1_200 }])),
  });
  onTestFinished(() => engine.close());
  return Promise.all(crowds.map((crowd) => outage(engine, dir, crowd)));
}

interface Crowd {
  readonly count: number;
  /** Of its provider. */
  readonly name: string;
  readonly upstream: Awaited<ReturnType<typeof provider>>;
}

async function outage(engine: Engine, dir: string, { count, name, upstream }: Crowd): Promise<object> {
  const input = join(dir, `${name}.jsonl`);
  const keys = Array.from({ length: count }, (_, index) => `key-${index}`);
  const lines = keys.map((key) => `${JSON.stringify(question(key, key, `${name}:m`))}\n`);
  writeFileSync(input, lines.join(""));
  const out = join(dir, `${name}.out.jsonl`);
  if (count === 1) upstream.fail();
  const run = engine.run(input, { out, sla: 1_440, onHeld: () => undefined });
  setTimeout(() => upstream.fail(), OUT_AFTER_MS);
  setTimeout(() => void upstream.mend(), OUT_AFTER_MS + OUT_MS);
  const { counts } = await run.finished;
  const answers = readFileSync(out, "utf8").trim().split("\n");
  const answered = answers.map((line) => (JSON.parse(line) as { key: string }).key);
  return {
    counts: { completed: counts.completed, failed: counts.failed, expired: counts.expired },
    isEachOnce: new Set(answered).size === count && answered.length === count,
    attemptsAfter: Math.max(...upstream.afterwards.values()) <= 3,
  };
}

it("an outage of 20 s, of any kind, ends no item: neither a single one, nor of 40, nor of 500", async () => {
  const cases = Object.keys(KINDS).flatMap((kind) => COUNTS.map((count) => [kind, count] as const));
  const found = (await Promise.all(Object.keys(KINDS).map(outagesOf))).flat();
  const ended = (all: readonly object[]) =>
    cases.map(([kind, count], index) => ({ kind, count, ...all[index] }));
  const whole = cases.map(([, count]) => ({
    counts: { completed: count, failed: 0, expired: 0 },
    isEachOnce: true,
    attemptsAfter: true,
  }));
  expect(ended(found)).toEqual(ended(whole));
}, 240_000);
