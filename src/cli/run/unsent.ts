/**
 * An engine for commands that send nothing: its data folder is removed afterwards.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Engine, openEngine } from "../../engine/engine.ts";
import type { Source } from "../../engine/files/input.ts";
import { requireFile } from "../input.ts";
import { type ConfigArguments, configOf } from "../prices.ts";
import { type StateArguments, stateFolder } from "./state_folder.ts";

/** Calls `work` with an engine that has the configuration of a command, and the command's input (`-`: standard input). */
export async function withEngine<T>(
  input: string,
  given: StateArguments & ConfigArguments,
  work: (engine: Engine, source: Source) => Promise<T>,
): Promise<T> {
  const file = await configOf(given);
  await requireFile(input);
  const dataDir = await mkdtemp(join(tmpdir(), "perigee-quote-"));
  try {
    const { engine } = await openEngine({
      ...file,
      dataDir,
      stateDir: stateFolder(given),
      onNotice: (message) => process.stderr.write(`perigee: ${message}\n`),
    });
    try {
      return await work(engine, input === "-" ? process.stdin : input);
    } finally {
      await engine.close();
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}
