/**
 * `perigee audit` of a log of ten million lines, in the process that a user starts.
 *
 *   npm run build
 *   npm run bench -- audit [--lines 10000000] [--rounds 1] [--stdin]
 *
 * Lines are of all formats in turn: rows of LiteLLM (six of ten), chat completions, messages, spans in OTLP JSON, results of usage
 * exports; of 12 models, over 30 days, shuffled; 330 bytes on average. Prints one line of JSON for each round: milliseconds from
 * the start of the process to its end, microseconds a line, CPU, and peak resident memory. Needs 3.3 GB in the temporary folder
 * for ten million lines, removed at the end.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Usage, usageOf } from "../shared/main_job.ts";

const { values } = parseArgs({
  options: {
    lines: { type: "string", default: "10000000" },
    rounds: { type: "string", default: "1" },
    stdin: { type: "boolean", default: false },
  },
});
const WRITTEN_LINES = 10_000;
const MODELS = [
  ["openai", "gpt-5"],
  ["openai", "gpt-5-mini"],
  ["openai", "gpt-4o-mini"],
  ["openai", "gpt-4.1"],
  ["anthropic", "claude-sonnet-4-5"],
  ["anthropic", "claude-haiku-4-5"],
  ["gemini", "gemini-2.5-flash"],
  ["gemini", "gemini-2.5-pro"],
  ["deepseek", "deepseek-v4-flash"],
  ["deepseek", "deepseek-chat"],
  ["groq", "llama-3.3-70b-versatile"],
  ["mistral", "mistral-large-latest"],
] as const;
const START_MS = Date.UTC(2026, 9, 1);
const MONTH_SECONDS = 30 * 86_400;

/** The same for a line number in every round; scattered over the month. */
function lineOf(line: number): string {
  const [provider, model] = MODELS[(line * 7) % MODELS.length] ?? MODELS[0];
  const atMs = START_MS + ((line * 7_919) % MONTH_SECONDS) * 1_000;
  const input = 200 + ((line * 31) % 4_000);
  const cached = line % 3 === 0 ? input >> 1 : 0;
  const output = 20 + ((line * 17) % 900);
  switch (line % 10) {
    case 6:
      return `{"id":"chatcmpl-${line}","object":"chat.completion","created":${atMs / 1_000},"model":"gpt-5-mini-2025-08-07","choices":[],"usage":{"prompt_tokens":${input},"completion_tokens":${output},"total_tokens":${input + output},"prompt_tokens_details":{"cached_tokens":${cached},"audio_tokens":0}},"service_tier":"default"}\n`;
    case 7:
      return `{"id":"msg_${line}","type":"message","role":"assistant","model":"claude-sonnet-4-5-20250929","content":[],"stop_reason":"end_turn","usage":{"input_tokens":${input},"cache_creation_input_tokens":0,"cache_read_input_tokens":${cached},"output_tokens":${output},"service_tier":"standard"}}\n`;
    case 8:
      return `{"resourceSpans":[{"resource":{"attributes":[]},"scopeSpans":[{"scope":{"name":"genai"},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"chat ${model}","kind":3,"startTimeUnixNano":"${atMs}000000","endTimeUnixNano":"${atMs + 900}000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.provider.name","value":{"stringValue":"${provider}"}},{"key":"gen_ai.request.model","value":{"stringValue":"${model}"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"${input}"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":"${output}"}}]}]}]}]}\n`;
    case 9:
      return `{"object":"organization.usage.completions.result","start_time":${atMs / 1_000},"end_time":${atMs / 1_000 + 3_600},"input_tokens":${input * 100},"output_tokens":${output * 100},"input_cached_tokens":${cached * 100},"num_model_requests":100,"model":"gpt-5-2025-08-07","batch":${line % 20 === 9}}\n`;
    default:
      return `{"request_id":"chatcmpl-${line}","call_type":"acompletion","api_key":"88dc28d0f030c55e","spend":${(input * 2.5e-7 + output * 2e-6).toFixed(9)},"total_tokens":${input + output},"prompt_tokens":${input},"completion_tokens":${output},"startTime":"${new Date(atMs).toISOString()}","endTime":"${new Date(atMs + 900).toISOString()}","model":"${provider}/${model}","custom_llm_provider":"${provider}","metadata":{"usage_object":{"prompt_tokens_details":{"cached_tokens":${cached}}}},"cache_hit":"False"}\n`;
  }
}

async function writeLog(path: string, lines: number): Promise<void> {
  const file = await open(path, "w");
  for (let line = 0; line < lines; line += WRITTEN_LINES) {
    const count = Math.min(WRITTEN_LINES, lines - line);
    await file.write(Array.from({ length: count }, (_, index) => lineOf(line + index)).join(""));
  }
  await file.close();
}

async function audit(log: string, isStream: boolean): Promise<Record<string, unknown>> {
  const started = performance.now();
  const child = spawn(process.execPath, ["dist/cli/main.js", "audit", isStream ? "-" : log, "--json"], {
    stdio: [isStream ? "pipe" : "ignore", "pipe", "inherit"],
  });
  if (child.stdin !== null) createReadStream(log, { highWaterMark: 1024 * 1024 }).pipe(child.stdin);
  let told = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    told += chunk.toString();
  });
  const closed = once(child, "close");
  let usage: Usage = { cpuUs: 0, peakKb: 0 };
  while (child.exitCode === null) {
    try {
      usage = usageOf(child.pid ?? 0);
    } catch {
      // it ended between the two looks
    }
    await sleep(20);
  }
  const elapsedMs = performance.now() - started;
  await closed;
  const report = JSON.parse(told) as { readonly lines: number; readonly lines_not_understood: number };
  return {
    lines: report.lines,
    notUnderstood: report.lines_not_understood,
    seconds: Math.round(elapsedMs / 100) / 10,
    usPerLine: Math.round((elapsedMs * 1e4) / report.lines) / 10,
    cpuSeconds: Math.round(usage.cpuUs / 1e5) / 10,
    peakMiB: Math.round(usage.peakKb / 1_024),
    load: readFileSync("/proc/loadavg", "utf8").split(" ")[0],
  };
}

const dir = mkdtempSync(join(tmpdir(), "perigee-bench-audit-"));
try {
  const log = join(dir, "log.jsonl");
  await writeLog(log, Number(values.lines));
  for (let round = 0; round < Number(values.rounds); round += 1)
    console.log(
      JSON.stringify({ mb: Math.round(statSync(log).size / 1e6), ...(await audit(log, values.stdin)) }),
    );
} finally {
  rmSync(dir, { recursive: true, force: true });
}
