/**
 * Embeddings of many short texts as a process of its own, against a local provider: texts a second, one line each.
 *
 *   npm run bench -- embeddings [--lines 1000000] [--dimensions 256] [--inflight 64] [--latency 50] [--profile FOLDER]
 *
 * Texts have 50 tokens. Every key must have one line with the vector of its number. Prints one line of JSON, and the row. The provider's
 * own CPU is measured apart, as it shares the processors. About 5 s of CPU are for the start of the process and the compilation of its
 * code, whatever the number of lines: 25 us a text of 200,000, 5 of a million.
 */
import { spawn } from "node:child_process";
import { createReadStream, createWriteStream, existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { report } from "../shared/harness.ts";
import { freePort, startProvider, usageOf } from "../shared/main_job.ts";

const { values } = parseArgs({
  options: {
    lines: { type: "string", default: "1000000" },
    dimensions: { type: "string", default: "256" },
    inflight: { type: "string", default: "64" },
    latency: { type: "string", default: "50" },
    profile: { type: "string" },
  },
});
const lines = Number(values.lines);
const WORDS =
  "the quick brown fox jumps over a lazy dog while seven careful judges measure every stride of it";

async function writeTexts(path: string): Promise<void> {
  const file = createWriteStream(path);
  const words = WORDS.split(" ");
  for (let line = 0; line < lines; line += 1) {
    const text = Array.from({ length: 45 }, (_, place) => words[(line + place * 7) % words.length]).join(" ");
    const item = `{"key":"k-${line}","kind":"embedding","model":"openai:text-embedding-3-small","input":"[[${line}]] ${text}","dimensions":${values.dimensions}}\n`;
    if (!file.write(item)) await new Promise<void>((resolve) => file.once("drain", resolve));
  }
  await new Promise<void>((resolve) => file.end(resolve));
}

/** Throws unless every key has one line with its vector. */
async function check(path: string): Promise<void> {
  const seen = new Uint8Array(lines);
  for await (const line of createInterface({ input: createReadStream(path) })) {
    const [, key, number] =
      /^\{"key":"k-(\d+)","output":\{"type":"embedding","embedding":\[(\d+),/.exec(line) ?? [];
    if (key === undefined || key !== number)
      throw new Error(`not the vector of its key: ${line.slice(0, 200)}`);
    seen[Number(key)] = (seen[Number(key)] ?? 0) + 1;
  }
  const wrong = seen.findIndex((times) => times !== 1);
  if (wrong >= 0) throw new Error(`k-${wrong} has ${seen[wrong]} lines`);
}

const dir = mkdtempSync(join(tmpdir(), "perigee-embeddings-"));
const port = await freePort();
const server = `${process.execPath} --import tsx ${join(import.meta.dirname, "../shared/embedding_provider.ts")} --latency ${values.latency} --dimensions ${values.dimensions}`;
const provider = await startProvider(server, port);
try {
  const [input, out] = [join(dir, "in.jsonl"), join(dir, "out.jsonl")];
  await writeTexts(input);
  const profile = values.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.profile}`];
  const providerBefore = usageOf(provider.pid ?? 0).cpuUs;
  const started = performance.now();
  const child = spawn(
    process.execPath,
    [...profile, "dist/cli/main.js", "run", input, "--out", out, "--json"],
    {
      stdio: ["ignore", "ignore", "inherit"],
      env: {
        ...process.env,
        PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
        PERIGEE_PROVIDER_OPENAI_KEY: "bench",
        PERIGEE_MAX_INFLIGHT: values.inflight,
      },
    },
  );
  let isOver = false;
  let usage = { cpuUs: 0, peakKb: 0 };
  const exited = new Promise<number | null>((resolve) => {
    child.on("exit", (code) => {
      isOver = true;
      resolve(code);
    });
  });
  while (!isOver) {
    if (existsSync(`/proc/${child.pid}/stat`)) {
      try {
        usage = usageOf(child.pid ?? 0);
      } catch {
        // it ended between the two looks
      }
    }
    await sleep(200);
  }
  const code = await exited;
  const seconds = (performance.now() - started) / 1_000;
  if (code !== 0) throw new Error(`the run ended with ${code}`);
  const providerUs = usageOf(provider.pid ?? 0).cpuUs - providerBefore;
  const stats = (await (await fetch(`http://127.0.0.1:${port}/stats`)).json()) as { req: number };
  await check(out);
  const ran = {
    textsPerSecond: Math.round(lines / seconds),
    seconds: Math.round(seconds * 10) / 10,
    requests: stats.req,
    cpuUsPerText: Math.round((usage.cpuUs / lines) * 10) / 10,
    providerUsPerText: Math.round((providerUs / lines) * 10) / 10,
    peakMiB: Math.round(usage.peakKb / 1_024),
    outMiB: Math.round(statSync(out).size / 2 ** 20),
  };
  console.log(JSON.stringify(ran));
  report([
    {
      name: `embeddings of ${lines} texts of 50 tokens, ${values.dimensions} numbers`,
      median: ran.textsPerSecond,
      unit: "texts/s",
    },
  ]);
} finally {
  provider.kill();
  rmSync(dir, { recursive: true, force: true });
}
