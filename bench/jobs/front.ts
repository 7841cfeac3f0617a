/**
 * Streams of the service's front over loopback, before a provider in a process of its own.
 *
 *   npm run bench -- front [calls] [streams]
 *
 * One stream after the other, through the service and directly in turn: the time from the provider's first chunk to its reader, and
 * from the request to the first chunk. Then many streams at once: the service's peak of memory (Linux).
 *
 * Targets: a first byte within 5 ms of the provider's; 500 streams in 300 MiB.
 */
import { type ChildProcess, execFileSync, fork, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { report } from "../shared/harness.ts";

const MAIN = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const SELF = fileURLToPath(import.meta.url);
const WANTED_MS = 5;
const WANTED_MIB = 300;
/** Of one answer: 200 chunks, one each 25 ms. */
const CHUNKS = 200;
const CHUNK_MS = 25;

if (process.send === undefined) await main(Number(process.argv[2] ?? 200), Number(process.argv[3] ?? 500));
else serveProvider();

interface FirstChunk {
  /** From the provider's write to its reader, and from the request to its reader. */
  readonly passedMs: number;
  readonly firstMs: number;
}

async function main(calls: number, streams: number): Promise<void> {
  const provider = fork(SELF, { execArgv: process.execArgv });
  const upstream = await new Promise<string>((resolve) =>
    provider.once("message", (url) => resolve(String(url))),
  );
  const dir = mkdtempSync(join(tmpdir(), "perigee-bench-"));
  const args = ["keys", "create", "--project", "bench", "--data", dir, "--json"];
  const created = execFileSync(process.execPath, [MAIN, ...args], { encoding: "utf8" });
  const { key } = JSON.parse(created) as { key: string };
  const env = {
    ...process.env,
    ...{ PERIGEE_PROVIDER_OPENAI_BASE_URL: upstream, PERIGEE_PROVIDER_OPENAI_KEY: "k" },
    PERIGEE_MAX_INFLIGHT: String(streams),
  };
  const child = spawn(process.execPath, [MAIN, "serve", "--port", "0", "--data", dir], {
    ...{ env, stdio: ["ignore", "pipe", "ignore"] },
  });
  try {
    const through = `${await addressOf(child)}/v1`;
    const of = (url: string, chunks: number): Promise<FirstChunk> => stream(url, key, chunks);
    for (let call = 0; call < 20; call += 1) await of(through, 2);
    const [passed, direct, first, directFirst]: [number[], number[], number[], number[]] = [[], [], [], []];
    for (let call = 0; call < calls; call += 1) {
      const [own, beside] = [await of(through, 2), await of(upstream, 2)];
      passed.push(own.passedMs);
      first.push(own.firstMs);
      direct.push(beside.passedMs);
      directFirst.push(beside.firstMs);
    }
    const wanted = { name: "wanted", median: WANTED_MS };
    const added = (own: number[], other: number[], share: number): number =>
      at(own, share) - at(other, share);
    report([
      {
        name: "front: first chunk passed on, half of them",
        median: added(passed, direct, 0.5),
        unit: "ms",
        beside: wanted,
      },
      {
        name: "front: first chunk passed on, 99 %",
        median: added(passed, direct, 0.99),
        unit: "ms",
        beside: wanted,
      },
      {
        name: "front: request to first chunk, half",
        median: at(first, 0.5),
        unit: "ms",
        beside: { name: "direct", median: at(directFirst, 0.5) },
      },
      {
        name: "front: request to first chunk, 99 %",
        median: at(first, 0.99),
        unit: "ms",
        beside: { name: "direct", median: at(directFirst, 0.99) },
      },
    ]);
    const idleMib = peakMib(child);
    const openedDirectly = await Promise.all(Array.from({ length: streams }, () => of(upstream, CHUNKS)));
    const many = await Promise.all(Array.from({ length: streams }, () => of(through, CHUNKS)));
    const times = many.map(({ passedMs }) => passedMs);
    const opened = (share: number, name: string) => ({
      name: `front: request to first chunk, of ${streams} at once, ${name}`,
      median: at(
        many.map(({ firstMs }) => firstMs),
        share,
      ),
      unit: "ms",
      beside: {
        name: "direct",
        median: at(
          openedDirectly.map(({ firstMs }) => firstMs),
          share,
        ),
      },
    });
    report([
      {
        name: `front: ${streams} streams at once, peak RSS`,
        median: peakMib(child),
        unit: "MiB",
        beside: { name: "wanted", median: WANTED_MIB },
      },
      { name: "front: peak RSS before", median: idleMib, unit: "MiB" },
      { name: `front: first chunk passed on, of ${streams}, half`, median: at(times, 0.5), unit: "ms" },
      opened(0.5, "half"),
      opened(0.99, "99 %"),
    ]);
  } finally {
    child.kill("SIGTERM");
    await new Promise((resolve) => child.once("exit", resolve));
    provider.disconnect();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Reads a stream to its end. */
async function stream(baseUrl: string, key: string, chunks: number): Promise<FirstChunk> {
  const startMs = performance.timeOrigin + performance.now();
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({
      model: "gpt-4o-mini",
      messages: [{ role: "user", content: String(chunks) }],
      stream: true,
    }),
  });
  if (!response.ok || response.body === null) throw new Error(`${response.status} ${await response.text()}`);
  let first: FirstChunk | undefined;
  let text = "";
  for await (const bytes of response.body) {
    const nowMs = performance.timeOrigin + performance.now();
    text += Buffer.from(bytes).toString();
    const sentMs = Number(/"sent":([\d.]+)/.exec(text)?.[1]);
    if (first === undefined && sentMs > 0) first = { passedMs: nowMs - sentMs, firstMs: nowMs - startMs };
  }
  if (first === undefined || !text.includes("[DONE]"))
    throw new Error(`not a whole stream: ${text.slice(-200)}`);
  return first;
}

/** The provider's process: as many chunks as the prompt says; the first one has the time at which it was sent. */
function serveProvider(): void {
  const server = createServer((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (part: string) => {
      text += part;
    });
    request.on("end", () => {
      const { messages } = JSON.parse(text) as { messages: { content: string }[] };
      let left = Number(messages[0]?.content);
      const send = (delta: object, more: object = {}, finish_reason: string | null = null): boolean =>
        response.write(
          `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", ...more, choices: [{ index: 0, delta, finish_reason }] })}\n\n`,
        );
      response.writeHead(200, { "content-type": "text/event-stream" });
      send({ role: "assistant", content: "one " }, { sent: performance.timeOrigin + performance.now() });
      const timer = setInterval(() => {
        left -= 1;
        if (left > 0) return void send({ content: "word and " });
        clearInterval(timer);
        send({}, { usage: { prompt_tokens: 8, completion_tokens: 9, total_tokens: 17 } }, "stop");
        response.end("data: [DONE]\n\n");
      }, CHUNK_MS);
    });
  });
  server.listen(0, "127.0.0.1", () =>
    process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`),
  );
  process.once("disconnect", () => process.exit());
}

function peakMib({ pid }: ChildProcess): number {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

function at(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN;
}

function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`perigee serve ended with ${code}`)));
    child.stdout?.once("data", (chunk: Buffer) =>
      resolve((JSON.parse(chunk.toString()) as { url: string }).url),
    );
  });
}
