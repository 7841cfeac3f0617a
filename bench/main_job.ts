/**
 * What the benches of the whole job share: the lines, the local provider, and what a process has used.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** Microseconds of user and system time of all threads, and peak resident kilobytes. */
export interface Usage {
  readonly cpuUs: number;
  readonly peakKb: number;
}

/** Of a process that still lives; throws when it has ended, waited for or not. */
export function usageOf(pid: number): Usage {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = Number(fields[11]) + Number(fields[12]);
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  if (peak === null) throw new Error(`process ${pid} has ended`);
  return { cpuUs: ticks * 10_000, peakKb: Number(peak[1]) };
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** `command` is a program and its options, without `--port`. Resolves once it answers. */
export async function startProvider(command: string, port: number): Promise<ChildProcess> {
  const [program = "", ...args] = command.split(" ");
  const child = spawn(program, [...args, "--port", String(port)], { stdio: "ignore" });
  for (let tries = 0; tries < 100; tries += 1) {
    const answer = await fetch(`http://127.0.0.1:${port}/stats`).catch(() => undefined);
    if (answer?.ok === true) return child;
    await sleep(50);
  }
  throw new Error(`${command} does not answer`);
}

/** Lines in the interface's layout, 600 bytes each, plain English words. */
export async function writeInput(path: string, lines: number): Promise<void> {
  const words =
    "the quick brown fox jumps over a lazy dog while seven careful judges measure every stride of it".split(
      " ",
    );
  const file = createWriteStream(path);
  for (let line = 0; line < lines; line += 1) {
    const head = `{"key":"k-${line}","request":{"model":"openai:gpt-4o-mini","contents":[{"parts":[{"text":"[[k-${line}|150]] `;
    const tail = '"}]}],"generation_config":{"temperature":0,"max_output_tokens":128}}}\n';
    let text = "";
    for (let word = line; head.length + text.length + tail.length < 600; word += 1)
      text += `${words[(word * 7) % words.length]} `;
    if (!file.write(head + text.slice(0, 600 - head.length - tail.length) + tail)) {
      await new Promise<void>((resolve) => file.once("drain", resolve));
    }
  }
  await new Promise<void>((resolve) => file.end(resolve));
}
