/**
 * What the benches of the whole job share: the lines, the local provider, and what a process has used.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createWriteStream, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const LOCAL_PROVIDER = [process.execPath, "--import", "tsx", join(import.meta.dirname, "local_provider.ts")];

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

/** `command` is a program and its options, without `--port`; by default a local one. Resolves once it answers. */
export async function startProvider(command: string | undefined, port: number): Promise<ChildProcess> {
  const [program = "", ...args] = command?.split(" ") ?? LOCAL_PROVIDER;
  const child = spawn(program, [...args, "--port", String(port)], { stdio: "ignore" });
  for (let tries = 0; tries < 200; tries += 1) {
    const answer = await fetch(`http://127.0.0.1:${port}/stats`).catch(() => undefined);
    if (answer?.ok === true) return child;
    await sleep(50);
  }
  throw new Error(`${program} does not answer`);
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

/** A service of its own process, and a key of one of its projects. */
export interface BenchService {
  readonly url: string;
  readonly key: string;
  /** Ends it, and waits for that. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** `key` is one of an earlier service on this folder; default: a new one. */
export async function serviceOn(dir: string, env: NodeJS.ProcessEnv, key?: string): Promise<BenchService> {
  const main = "dist/cli/main.js";
  const wanted = ["keys", "create", "--project", "bench", "--data", dir, "--json"];
  const made =
    key ??
    (
      JSON.parse(execFileSync(process.execPath, [main, ...wanted], { encoding: "utf8", env })) as {
        key: string;
      }
    ).key;
  const child = spawn(process.execPath, [main, "serve", "--port", "0", "--data", dir], {
    stdio: ["ignore", "pipe", "ignore"],
    env,
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const url = await new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`perigee serve ended with ${code}`)));
    child.stdout.once("data", (chunk: Buffer) =>
      resolve((JSON.parse(chunk.toString()) as { url: string }).url),
    );
  });
  const stop = async (signal: NodeJS.Signals = "SIGTERM"): Promise<void> => {
    child.kill(signal);
    await ended;
  };
  return { url, key: made, stop };
}
