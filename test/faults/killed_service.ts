/**
 * What tests that kill a service need besides it: a key that was made before, and where it listens.
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { systemClock } from "../../src/clock.ts";
import { SCOPES } from "../../src/service/http/caller.ts";
import { openKeyStore } from "../../src/store/keys/key_store.ts";

/** Makes a key of the project acme in a data folder, as `perigee keys create` does. */
export async function createKey(dataDir: string, { isBeta = false } = {}): Promise<string> {
  const keys = await openKeyStore({ dataDir, clock: systemClock });
  try {
    const scopes = SCOPES.filter((scope) => scope !== "admin");
    return keys.create({ project: "acme", name: "default", scopes, isBeta }).key;
  } finally {
    keys.close();
  }
}

/** Resolves with the address of `perigee serve` once it answers; its standard output must be a pipe. */
export async function urlOf(child: ChildProcess): Promise<string> {
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const [line] = (await once(lines, "line")) as [string];
  return (JSON.parse(line) as { url: string }).url;
}
