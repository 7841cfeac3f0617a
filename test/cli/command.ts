/**
 * The built command line in a folder of its own, as a user starts it. Commands share a process unless a test asks for their own.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MAIN } from "../built.ts";
import { type HostedCall, hostedCommand } from "./hosted_command.ts";

/** How a command ended. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Desk {
  readonly dir: string;
  /** Writes a file into the folder; objects become lines of JSON, text stays as it is. */
  write(name: string, lines: readonly (object | string)[]): string;
  read(name: string): string;
  /** Lines of an output, as JSON. */
  lines(name: string): Line[];
  /** Runs `perigee <words>` in the folder, without any key of this machine in its environment. */
  perigee(
    words: readonly string[],
    options?: { env?: Record<string, string>; stdin?: string },
  ): Promise<Ended>;
  remove(): void;
}

export interface Line {
  readonly key: string | null;
  readonly line?: number;
  readonly output: { readonly text: string } | null;
  readonly error?: { readonly code: string; readonly message: string; readonly line?: number };
}

/** A line for the echo provider. */
export function question(key: string, text: string = key, model = "echo:test"): object {
  return { key, request: { model, contents: [{ parts: [{ text }] }] } };
}

/** An empty folder; remove it after the test. `ownProcesses`: each command is started as a process. */
export function openDesk({ ownProcesses = false } = {}): Desk {
  const dir = mkdtempSync(join(tmpdir(), "perigee-test-"));
  const read = (name: string): string => readFileSync(join(dir, name), "utf8");
  return {
    dir,
    read,
    write: (name, lines) => {
      const text = lines
        .map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`)
        .join("");
      writeFileSync(join(dir, name), text);
      return name;
    },
    lines: (name) =>
      read(name)
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Line),
    perigee: (words, { env: added = {}, stdin } = {}) => {
      const env = { XDG_STATE_HOME: join(dir, "state"), ...added };
      return commandIn(dir, words, { env, stdin, ownProcess: ownProcesses });
    },
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}

/** Runs `perigee <words>` in a folder, with PATH and `env` as its environment. Without the line "opening", which only a slow machine writes. */
export async function commandIn(
  dir: string,
  words: readonly string[],
  options: {
    readonly env?: Record<string, string | undefined>;
    readonly stdin?: string | undefined;
    readonly ownProcess?: boolean;
  } = {},
): Promise<Ended> {
  const env = { PATH: process.env["PATH"], NO_COLOR: "1", ...options.env };
  const call = { main: MAIN, dir, words, env, stdin: options.stdin ?? "" };
  const hosted = options.ownProcess === true ? undefined : hostedCommand(call);
  const ended = await (hosted ?? inOwnProcess(call));
  return { ...ended, stderr: ended.stderr.replace(/^opening {2}.*\n/m, "") };
}

function inOwnProcess({ main, dir, words, env, stdin }: HostedCall): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [main, ...words], { cwd: dir, env, timeout: 100_000 });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, stdout, stderr }));
    child.stdin.on("error", () => undefined); // a command that ends early leaves the pipe
    child.stdin.end(stdin);
  });
}
