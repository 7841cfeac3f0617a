/**
 * The memory of a fleet worker while it is posted much at once: its peak (resident), of a fresh worker for each kind of load.
 *
 *   npm run build
 *   node --import tsx bench/fleet_memory.ts [--only tasks,large,calls] [--tasks 200] [--large 64] [--calls 64] [--callers 16]
 *
 *   tasks    tasks of 1,000 items of 50 characters, whose provider never answers: open items stay
 *   large    tasks of 1,000 items of 8 KiB: 8 MB each
 *   calls    calls of OpenAI's clients of 8 MB each, which are parsed whole
 *
 * Wanted: at most 256 MiB for a worker, which each of the three exceeds (docs/guide/production.md). What is refused with 429 or 503 is counted.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { parseArgs } from "node:util";
import { BenchFleet, type BenchWorker, providerEnv } from "./shared/fleet.ts";

const { values } = parseArgs({
  options: {
    only: { type: "string", default: "tasks,large,calls" },
    tasks: { type: "string", default: "200" },
    large: { type: "string", default: "64" },
    calls: { type: "string", default: "64" },
    callers: { type: "string", default: "16" },
  },
});
const LARGE_CHARS = 8 * 1024;
const CALL_CHARS = 8_000_000;
/** More than any load here may take. */
const CALL_WAIT_MS = 300_000;

interface Load {
  readonly path: string;
  readonly body: string;
  readonly count: number;
}

const item = (input: string): object => ({ model: "openai:gpt-test", input, sla: 1_440 });
const list = (input: string): string => JSON.stringify(Array(1_000).fill(item(input)));
const LOADS: Readonly<Record<string, () => Load>> = {
  tasks: () => ({
    path: "/v0/infer/",
    body: list("Name a river that flows through two countries."),
    count: Number(values.tasks),
  }),
  large: () => ({
    path: "/v0/infer/",
    body: list("word ".repeat(LARGE_CHARS / 5)),
    count: Number(values.large),
  }),
  calls: () => ({
    path: "/v1/chat/completions",
    body: JSON.stringify({
      model: "openai:gpt-test",
      messages: [{ role: "user", content: "word ".repeat(CALL_CHARS / 5) }],
    }),
    count: Number(values.calls),
  }),
};

const ANSWER = JSON.stringify({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "gpt-test",
  choices: [{ index: 0, message: { role: "assistant", content: "The Danube." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 },
});
/** A provider that answers large requests, and never small ones. */
const provider = createServer((request, response) => {
  request.resume();
  if (Number(request.headers["content-length"]) < LARGE_CHARS * 2) return;
  request.once("end", () => response.setHeader("content-type", "application/json").end(ANSWER));
});
await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
try {
  for (const name of values.only.split(",")) {
    const load = LOADS[name];
    if (load === undefined) throw new Error(`unknown load ${name}`);
    console.log(`${name}: ${await measured(load())}`);
  }
} finally {
  provider.closeAllConnections();
  provider.close();
}

async function measured(load: Load): Promise<string> {
  const { port } = provider.address() as AddressInfo;
  const fleet = await BenchFleet.open({ ...process.env, ...providerEnv(port) });
  try {
    await fleet.start(1);
    const [worker] = fleet.workers as [BenchWorker]; // it was started
    const idleMib = fleet.peakMib();
    const before = fleet.cpuSeconds();
    const startMs = performance.now();
    const statuses = await posted(load, worker.url, fleet.key("bench"));
    const seconds = (performance.now() - startMs) / 1_000;
    const after = fleet.cpuSeconds();
    const each = (one: number, other: number): string => ((1_000 * (one - other)) / load.count).toFixed(0);
    const sizes = `${load.count} x ${(load.body.length / 1e6).toFixed(1)} MB, ${values.callers} at a time`;
    const cpu = `worker ${each(after.workers, before.workers)}, PostgreSQL ${each(after.server, before.server)} ms of CPU each`;
    return `${sizes}: ${JSON.stringify(statuses)} in ${seconds.toFixed(1)} s; ${cpu}; the worker took ${fleet.peakMib().toFixed(0)} MiB at most, ${idleMib.toFixed(0)} before`;
  } finally {
    await fleet.close();
  }
}

/** How many answers of each status. */
async function posted(
  { path, body, count }: Load,
  url: string,
  key: string,
): Promise<Readonly<Record<string, number>>> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const statuses: Record<string, number> = {};
  let left = count;
  const post = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const signal = AbortSignal.timeout(CALL_WAIT_MS);
      const status = await fetch(`${url}${path}`, { method: "POST", headers, body, signal }).then(
        async (answer) => {
          await answer.arrayBuffer();
          return String(answer.status);
        },
        (error: unknown) =>
          error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error),
      );
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: Math.min(Number(values.callers), count) }, post));
  return statuses;
}
