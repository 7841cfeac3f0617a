/**
 * How soon after the deadline a run ends whose lines are nearly all unsent: each ends as `expired`, its line written.
 *
 *   npm run bench -- expiry [lines]        (default 100,000 lines of 600 bytes)
 *
 * One request a minute is allowed, so one line is answered. The sla is a minute, of which the clock skips all but a few
 * seconds. Prints the time from the deadline to the summary, CPU of all threads in that time, and memory.
 */
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { type Clock, createEngine, systemClock, type Transport } from "../../src/index.ts";

const SLA_MS = 60_000;

/** A minute that passes at once: the timer of the deadline is set that much earlier, and then the clock moves on. */
function hurrying(skippedMs: number, onDeadline: () => void): Clock {
  let aheadMs = 0;
  return {
    ...systemClock,
    nowMs: () => systemClock.nowMs() + aheadMs,
    wallMs: () => systemClock.wallMs() + aheadMs,
    timer: (delayMs, callback, options) => {
      if (delayMs < SLA_MS - 5_000 || aheadMs > 0) return systemClock.timer(delayMs, callback, options);
      return systemClock.timer(Math.max(0, delayMs - skippedMs), () => {
        aheadMs = skippedMs;
        onDeadline();
        callback();
      });
    },
  };
}

/** Answers after 50 ms. */
const transport: Transport = {
  send: async () => {
    await systemClock.sleep(50);
    const answer = {
      choices: [{ message: { content: "Because." }, finish_reason: "stop" }],
      usage: { prompt_tokens: 100, completion_tokens: 2 },
    };
    return { ok: true, status: 200, headers: {}, body: Buffer.from(JSON.stringify(answer)) };
  },
  stream: () => Promise.reject(new Error("not used")),
  close: () => Promise.resolve(),
};

async function writeInput(path: string, lines: number): Promise<void> {
  const words =
    "the quick brown fox jumps over a lazy dog while seven careful judges measure every stride".split(" ");
  const file = createWriteStream(path);
  for (let line = 0; line < lines; line += 1) {
    const head = `{"key":"k-${line}","request":{"model":"openai:gpt-4o-mini","contents":[{"parts":[{"text":"`;
    const tail = '"}]}],"generation_config":{"temperature":0,"max_output_tokens":128}}}\n';
    let text = "";
    for (let word = line; head.length + text.length + tail.length < 600; word += 1)
      text += `${words[(word * 7) % words.length]} `;
    if (!file.write(head + text.slice(0, 600 - head.length - tail.length) + tail))
      await new Promise<void>((resolve) => file.once("drain", resolve));
  }
  await new Promise<void>((resolve) => file.end(resolve));
}

const lines = Number(process.argv[2] ?? 100_000);
const folder = await mkdtemp(join(tmpdir(), "perigee-expiry-"));
try {
  const input = join(folder, "in.jsonl");
  await writeInput(input, lines);
  let deadlineMs = 0;
  let cpu = process.cpuUsage();
  let beforeKb = 0;
  const engine = await createEngine({
    dataDir: join(folder, "state"),
    env: { OPENAI_API_KEY: "bench" },
    limits: { openai: { requestsPerMinute: 1 } },
    transport,
    clock: hurrying(SLA_MS - Math.max(4_000, Math.ceil(lines / 150)), () => {
      deadlineMs = performance.now();
      cpu = process.cpuUsage();
      beforeKb = process.resourceUsage().maxRSS;
    }),
  });
  const output = join(folder, "out.jsonl");
  const summary = await engine.run(input, { out: output, sla: 1 }).finished;
  const endedMs = performance.now() - deadlineMs;
  const { user, system } = process.cpuUsage(cpu);
  await engine.close();
  let written = 0;
  for await (const _line of createInterface({ input: createReadStream(output) })) written += 1;
  const result = {
    lines,
    written,
    expired: summary.counts.expired,
    afterDeadlineMs: Math.round(endedMs),
    userUsPerLine: Math.round((user / lines) * 10) / 10,
    systemUsPerLine: Math.round((system / lines) * 10) / 10,
    peakMiB: Math.round(process.resourceUsage().maxRSS / 1_024),
    peakBeforeMiB: Math.round(beforeKb / 1_024),
  };
  console.log(JSON.stringify(result));
} finally {
  await rm(folder, { recursive: true, force: true });
}
