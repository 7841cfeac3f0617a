/**
 * The cost of one request through the transport, against undici used bare.
 *
 *   npm run bench -- transport [--origin http://127.0.0.1:PORT] [--inflight 2048] [--seconds 5] [--only NAME]
 *
 * Without `--origin` a child process answers after 50 ms; it is slower than the transport and shares the machine, so
 * name a faster server of your own for figures of throughput. CPU is only this process, all its threads.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { parseArgs } from "node:util";
import { type Dispatcher, Pool } from "undici";
import { systemClock } from "../../src/clock.ts";
import { createDispatcher } from "../../src/dispatch/dispatcher.ts";
import { RETRY_POLICY } from "../../src/dispatch/retry.ts";
import { createUndiciTransport, loadUndici } from "../../src/dispatch/undici.ts";
import type { Provider } from "../../src/providers/provider.ts";

const undici = await loadUndici();

const { values } = parseArgs({
  options: {
    origin: { type: "string" },
    inflight: { type: "string", default: "2048" },
    seconds: { type: "string", default: "5" },
    only: { type: "string" },
    serve: { type: "boolean", default: false },
  },
});

const inflight = Number(values.inflight);
const runMs = Number(values.seconds) * 1_000;
const path = "/v1/chat/completions";
const headers = {
  "content-type": "application/json",
  authorization: "Bearer sk-bench-0123456789",
  "user-agent": "perigee",
};
const body = Buffer.from(
  JSON.stringify({ model: "gpt-test", messages: [{ role: "user", content: "x".repeat(532) }] }),
);

interface Contender {
  readonly name: string;
  open(origin: string): { send(): Promise<number>; close(): Promise<void> };
}

const contenders: readonly Contender[] = [
  {
    name: "pool.request",
    open(origin) {
      const pool = new Pool(origin, { connections: inflight, headersTimeout: 0, bodyTimeout: 0 });
      const send = async (): Promise<number> => {
        const answer = await pool.request({ method: "POST", path, headers, body });
        return (await answer.body.bytes()).length;
      };
      return { send, close: () => pool.destroy() };
    },
  },
  {
    name: "pool.dispatch",
    open(origin) {
      const pool = new Pool(origin, { connections: inflight, headersTimeout: 0, bodyTimeout: 0 });
      const flat = Object.entries(headers).flat();
      const send = (): Promise<number> =>
        new Promise((resolve, reject) => {
          let bytes = 0;
          const handler: Dispatcher.DispatchHandler = {
            onConnect: () => {},
            onHeaders: () => true,
            onData: (chunk) => {
              bytes += chunk.length;
              return true;
            },
            onComplete: () => resolve(bytes),
            onError: reject,
          };
          pool.dispatch({ method: "POST", path, headers: flat, body }, handler);
        });
      return { send, close: () => pool.destroy() };
    },
  },
  {
    name: "perigee",
    open(origin) {
      const transport = createUndiciTransport({ clock: systemClock, connectionsMax: inflight }, undici);
      const send = async (): Promise<number> => {
        const result = await transport.send({ origin, path, headers, body }, { timeoutMs: 600_000 });
        if (!result.ok) throw new Error(result.message);
        return result.body.length;
      };
      return { send, close: () => transport.close() };
    },
  },
  {
    name: "dispatcher",
    open(origin) {
      const transport = createUndiciTransport({ clock: systemClock, connectionsMax: inflight }, undici);
      const admission = { admit: () => Promise.resolve(), attempted: () => true, begun: () => undefined };
      const dispatcher = createDispatcher({
        clock: systemClock,
        transport,
        policy: RETRY_POLICY,
        admission,
      });
      const provider = codec();
      const call = {
        provider,
        head: { origin, path, headers },
        body,
        inputTokens: 150,
        deadlineMs: Number.POSITIVE_INFINITY,
        attemptMsMax: 600_000,
        attempts: 0,
        uncounted: 0,
        ambiguousAttempts: 0,
        uncountedAmbiguous: 0,
        unusableAnswers: 0,
      };
      const send = async (): Promise<number> => {
        const result = await dispatcher.run(call);
        if (result.kind !== "outcome" || result.outcome.status !== "completed") throw new Error("no answer");
        return result.outcome.output.text?.length ?? 0;
      };
      return { send, close: () => transport.close() };
    },
  },
];

if (values.serve) serve();
else await main();

async function main(): Promise<void> {
  const child =
    values.origin === undefined
      ? spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1, 2), "--serve"], {
          stdio: ["ignore", "pipe", "inherit"],
        })
      : undefined;
  const origin = values.origin ?? String((await once(child?.stdout ?? process.stdin, "data"))[0]).trim();
  for (const contender of contenders) {
    if (values.only === undefined || values.only === contender.name) await measure(contender, origin);
  }
  child?.kill();
}

async function measure(contender: Contender, origin: string): Promise<void> {
  const { send, close } = contender.open(origin);
  const run = async (forMs: number): Promise<number> => {
    const endMs = systemClock.nowMs() + forMs;
    let done = 0;
    const loop = async (): Promise<void> => {
      while (systemClock.nowMs() < endMs) {
        await send();
        done += 1;
      }
    };
    await Promise.all(Array.from({ length: inflight }, loop));
    return done;
  };
  await run(2_000);
  const cpu = process.cpuUsage();
  const startMs = systemClock.nowMs();
  const done = await run(runMs);
  const seconds = (systemClock.nowMs() - startMs) / 1_000;
  const { user, system } = process.cpuUsage(cpu);
  console.log(
    `${contender.name.padEnd(14)} ${Math.round(done / seconds)} requests/s   ${((user + system) / done).toFixed(1)} us CPU a request   in flight ${inflight}`,
  );
  await close();
}

/** The least that a codec does: it shows what the dispatcher adds, without the codecs' own cost. */
function codec(): Provider {
  return {
    settings: { name: "bench", protocol: "openai", baseUrl: "" },
    head: () => ({ origin: "", path, headers }),
    encode: () => ({ ok: true, body: "", dropped: [] }),
    decode: () => ({ class: "success", text: "yes", finish: "stop", usage: undefined }),
    limits: () => undefined,
  };
}

/** Answers every request 50 ms after it came; a request is taken to come in one piece. */
function serve(): void {
  const text = JSON.stringify({
    choices: [{ message: { content: "x".repeat(300) }, finish_reason: "stop" }],
  });
  const answer = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
  const server = createServer((socket) => {
    socket.setNoDelay(true);
    socket.on("error", () => socket.destroy());
    socket.on("data", () => setTimeout(() => socket.write(answer), 50));
  });
  server.listen(0, "127.0.0.1", () => {
    const address = server.address();
    if (address !== null && typeof address === "object") console.log(`http://127.0.0.1:${address.port}`);
  });
}
