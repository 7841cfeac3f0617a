/**
 * What tests that kill a service need besides it: a key that was made before, and where it listens.
 */
import { type ChildProcess, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { MAIN } from "../built.ts";

/** Makes a key of the project acme in a data folder. */
export function createKey(dataDir: string, flags: readonly string[] = []): string {
  const words = ["keys", "create", "--project", "acme", ...flags, "--data", dataDir, "--json"];
  const made = spawnSync(process.execPath, [MAIN, ...words]);
  return (JSON.parse(made.stdout.toString()) as { key: string }).key;
}

/** Resolves with the address of `perigee serve` once it answers; its standard output must be a pipe. */
export async function urlOf(child: ChildProcess): Promise<string> {
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const [line] = (await once(lines, "line")) as [string];
  return (JSON.parse(line) as { url: string }).url;
}
