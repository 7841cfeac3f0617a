/**
 * Lines of 8 MiB stay inside the memory bound of docs/decisions/0008-heap.md, as the system counts it for the whole process.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { type Desk, openDesk, question } from "../cli/command.ts";

const PEAK_MIB_MAX = 256;
const LINES = 16;
const ANSWER = JSON.stringify({
  id: "x",
  object: "chat.completion",
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

let desk: Desk;
let server: Server;
beforeEach(async () => {
  desk = openDesk({ ownProcesses: true });
  server = createServer((request, response) => {
    request.resume().on("end", () => response.setHeader("content-type", "application/json").end(ANSWER));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
});
afterEach(() => {
  server.close();
  desk.remove();
});

/** Runs lines of 8 MiB for a model; its exit code and the most memory that it had. */
async function runLargeLines(model: string): Promise<{ code: number | null; peakMib: number }> {
  const input = join(desk.dir, "in.jsonl");
  const text = "the quick brown fox jumps over a lazy dog. ".repeat(194_000);
  writeFileSync(input, "");
  for (let line = 0; line < LINES; line += 1)
    appendFileSync(input, `${JSON.stringify(question(`k${line}`, `${line} ${text}`, model))}\n`);
  const { port } = server.address() as AddressInfo;
  const env = {
    PATH: process.env["PATH"],
    XDG_STATE_HOME: join(desk.dir, "state"),
    PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
    PERIGEE_PROVIDER_OPENAI_KEY: "k",
    PERIGEE_LIMIT_OPENAI_RPM: "90000000",
    PERIGEE_LIMIT_OPENAI_TPM: "900000000",
  };
  const words = [MAIN, "run", input, "--out", join(desk.dir, "out.jsonl")];
  const child = spawn(process.execPath, words, { cwd: desk.dir, env, stdio: "ignore" });
  const ended = once(child, "exit");
  let peakKib = 0;
  while (child.exitCode === null && child.signalCode === null) {
    const status = statusOf(child.pid);
    peakKib = Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? peakKib);
    await sleep(20);
  }
  const [code] = (await ended) as [number | null];
  return { code, peakMib: peakKib / 1024 };
}

function statusOf(pid: number | undefined): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    return ""; // it has ended
  }
}

describe.runIf(process.platform === "linux")("lines of 8 MiB", { timeout: 180_000 }, () => {
  it.each(["openai:gpt-4o-mini", "echo:test"])(
    "for %s take no more memory than the command promises",
    async (model) => {
      const { code, peakMib } = await runLargeLines(model);
      expect(code).toBe(0);
      expect(peakMib).toBeGreaterThan(0);
      expect(peakMib).toBeLessThan(PEAK_MIB_MAX);
      expect(readFileSync(join(desk.dir, "out.jsonl"), "latin1").split("\n")).toHaveLength(LINES + 1);
    },
  );
});
