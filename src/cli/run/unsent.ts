/**
 * An engine for commands that send nothing: its data folder is removed afterwards.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EngineCore } from "../../engine/core.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import type { Source } from "../../engine/files/input.ts";
import { requireFile } from "../input.ts";
import { type ConfigArguments, configOf } from "../prices.ts";
import type { TableArguments } from "../tables/table_arguments.ts";
import { isTableCall } from "../tables/table_options.ts";
import { type StateArguments, stateFolder } from "./state_folder.ts";

/** What a command does with its input; `core` is the inside of the engine. */
type UnsentWork<T> = (engine: Engine, source: Source, core: EngineCore) => Promise<T>;

/** As `withEngine`; of a table with a prompt, the input is its request lines. */
export async function withInput<T>(
  input: string,
  given: StateArguments & ConfigArguments & TableArguments,
  work: UnsentWork<T>,
): Promise<T> {
  if (!isTableCall(given)) return withEngine(input, given, work);
  const { withRequests } = await import("../tables/requests_file.ts");
  return withRequests(input, given, (path) => withEngine(path, given, work));
}

/** Calls `work` with an engine that has the configuration of a command, and the command's input (`-`: standard input). */
export async function withEngine<T>(
  input: string,
  given: StateArguments & ConfigArguments,
  work: UnsentWork<T>,
): Promise<T> {
  const file = await configOf(given);
  await requireFile(input);
  const dataDir = await mkdtemp(join(tmpdir(), "perigee-quote-"));
  try {
    const { engine, core } = await openEngine({
      ...file,
      dataDir,
      stateDir: stateFolder(given),
      onNotice: (message) => process.stderr.write(`perigee: ${message}\n`),
    });
    try {
      return await work(engine, input === "-" ? process.stdin : input, core);
    } finally {
      await engine.close();
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}
