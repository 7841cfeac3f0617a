/**
 * A table with a prompt beside the same requests as JSON lines, each as a process of its own, against a local provider.
 *
 *   npm run build
 *   npm run bench -- tables [--rows 1000000] [--inflight 512] [--rounds 1]
 *
 * Rows have four columns and 130 bytes, a quarter of their fields in quotes. Prints one line of JSON for each run: seconds from the start
 * of the process to its end, CPU seconds of its threads, peak resident memory, and what the provider saw twice; then the ratio of the medians. The output of the
 * table is a CSV file with all rows and their answers. Needs 1.5 GB in the temporary folder for a million rows, removed at the end.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, createWriteStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { median, report } from "../shared/harness.ts";
import { freePort, startProvider, type Usage, usageOf } from "../shared/main_job.ts";

const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "1000000" },
    inflight: { type: "string", default: "512" },
    rounds: { type: "string", default: "1" },
  },
});
const rows = Number(values.rows);
const MODEL = "openai:gpt-4o-mini";

const folder = mkdtempSync(join(tmpdir(), "perigee-bench-"));
const port = await freePort();
const provider = await startProvider(undefined, port);
try {
  const [csv, jsonl, prompt] = ["rows.csv", "rows.jsonl", "prompt.md"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(prompt, `---\nmodel: ${MODEL}\n---\n[[{{id}}| {{review}} ({{city}})`);
  await writeRows(csv, jsonl);
  const seconds = { jsonl: [] as number[], csv: [] as number[] };
  for (let round = 0; round < Number(values.rounds); round += 1) {
    seconds.jsonl.push(await runOnce("jsonl", ["run", jsonl, "--out", join(folder, "a.jsonl")]));
    seconds.csv.push(await runOnce("csv", ["run", csv, "--prompt", prompt, "--out", join(folder, "a.csv")]));
  }
  report([
    {
      name: `${rows} rows of a table`,
      median: median(seconds.csv),
      unit: "s",
      beside: { name: "JSON lines", median: median(seconds.jsonl) },
    },
  ]);
} finally {
  provider.kill();
  rmSync(folder, { recursive: true, force: true });
}

async function runOnce(kind: "jsonl" | "csv", words: readonly string[]): Promise<number> {
  await fetch(`http://127.0.0.1:${port}/reset`);
  const started = performance.now();
  const child = spawn(process.execPath, ["dist/cli/main.js", ...words, "--json", "--no-learn"], {
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
      PERIGEE_PROVIDER_OPENAI_KEY: "bench",
      PERIGEE_LIMIT_OPENAI_RPM: "90000000",
      PERIGEE_LIMIT_OPENAI_TPM: "900000000",
      PERIGEE_MAX_INFLIGHT: values.inflight,
    },
  });
  let used: Usage = { peakKb: 0, cpuUs: 0 };
  let isOver = false;
  const exited = once(child, "exit").then(([code]) => {
    isOver = true;
    return code as number;
  });
  while (!isOver) {
    try {
      used = usageOf(child.pid ?? 0);
    } catch {
      // it ended between the two looks
    }
    await sleep(50);
  }
  const seconds = (performance.now() - started) / 1_000;
  const { dupOk } = (await (await fetch(`http://127.0.0.1:${port}/stats`)).json()) as { dupOk: number };
  const out = words.at(-1) as string;
  console.log(
    JSON.stringify({
      kind,
      exit: await exited,
      seconds,
      cpuSeconds: used.cpuUs / 1e6,
      peakMb: Math.round(used.peakKb / 1_024),
      dupOk,
      lines: await linesOf(out),
    }),
  );
  rmSync(out);
  rmSync(`${out}.perigee`, { recursive: true });
  return seconds;
}

async function linesOf(path: string): Promise<number> {
  let lines = 0;
  for await (const bytes of createReadStream(path))
    for (const byte of bytes as Buffer) if (byte === 0x0a) lines += 1;
  return lines;
}

/** The same requests in both. */
async function writeRows(csv: string, jsonl: string): Promise<void> {
  const [table, lines] = [createWriteStream(csv), createWriteStream(jsonl)];
  table.write("id,name,city,review\n");
  for (let id = 1; id <= rows; id += 1) {
    const review = `said "yes", ${"word ".repeat(12)}${id % 97}`;
    table.write(`${id},name ${id},city ${id % 100},"${review.replaceAll('"', '""')}"\n`);
    const text = `[[${id}| ${review} (city ${id % 100})`;
    const isRoomy = lines.write(
      `${JSON.stringify({ key: String(id), request: { contents: [{ parts: [{ text }] }], model: MODEL } })}\n`,
    );
    if (!isRoomy) await once(lines, "drain");
  }
  table.end();
  lines.end();
  await Promise.all([once(table, "finish"), once(lines, "finish")]);
}
