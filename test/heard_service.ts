/**
 * `perigee serve` as a process all of whose words are kept, for tests that search them.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { MAIN } from "./built.ts";

export interface HeardService {
  readonly child: ChildProcess;
  /** Where it listens. */
  readonly url: string;
  /** Resolves when the process has ended. */
  readonly ended: Promise<unknown>;
  /** What it has written so far. */
  stdout(): string;
  stderr(): string;
}

/** Resolves when it answers; rejects with what it said when it ends before. It has no environment but PATH. */
export async function startHeard(dir: string, flags: readonly string[]): Promise<HeardService> {
  const words = [MAIN, "serve", "--port", "0", ...flags];
  const child = spawn(process.execPath, words, { cwd: dir, env: { PATH: process.env["PATH"] } });
  process.once("exit", () => child.kill("SIGKILL")); // where nobody came to have it
  let stdout = "";
  let stderr = "";
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
      if (stdout.includes("\n")) resolve((JSON.parse(stdout) as { url: string }).url);
    });
    void ended.then(() => reject(new Error(stderr)));
  });
  return { child, url, ended, stdout: () => stdout, stderr: () => stderr };
}
