/**
 * Commands of the build that share one process, for tests of what commands say and write. See `command_host.ts`.
 *
 * Each worker of the tests has one such process; it ends with its worker. Tests of processes themselves start their own.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { transformSync } from "esbuild";
import type { Ended } from "./command.ts";

/** What a command is called with. */
export interface HostedCall {
  /** Path of the built `main.js`. */
  readonly main: string;
  /** Its working folder. */
  readonly dir: string;
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Standard input; it ends there. */
  readonly stdin: string;
}

const READ_ONCE = /^(NODE_.*|PERIGEE_DEBUG)$/;

let host: ChildProcess | undefined;
let isBusy = false;

/** Undefined when the command needs a process of its own: another one runs, or its environment is read once for a process. */
export function hostedCommand(call: HostedCall): Promise<Ended> | undefined {
  if (isBusy || Object.keys(call.env).some((name) => READ_ONCE.test(name))) return undefined;
  isBusy = true;
  host ??= startHost();
  const child = host;
  return new Promise<Ended>((resolve, reject) => {
    const died = (code: number | null): void => {
      host = undefined;
      reject(new Error(`the process of perigee ${call.words.join(" ")} ended with ${code}`));
    };
    child.once("exit", died);
    child.once("message", (ended: Ended) => {
      child.off("exit", died);
      resolve(ended);
    });
    child.send(call);
  }).finally(() => {
    isBusy = false;
  });
}

function startHost(): ChildProcess {
  const source = readFileSync(join(import.meta.dirname, "command_host.ts"), "utf8");
  const { code } = transformSync(source, { loader: "ts", format: "esm" });
  const child = spawn(process.execPath, ["--input-type=module", "--eval", code], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  child.unref();
  child.channel?.unref();
  return child;
}
