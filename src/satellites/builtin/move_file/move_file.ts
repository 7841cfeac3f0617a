/**
 * `move-file`: a file of a store, or of the project's file store, to another place; `run.ts` moves it.
 */
import { z } from "../../../schema.ts";
import { defineSatellite } from "../../sdk/define.ts";
import { loadedRun } from "../../sdk/loaded_run.ts";
import type { Satellite } from "../../sdk/satellite.ts";
import { destinationOf, STORE_CONCURRENCY, type StoreOptions } from "../files/store_config.ts";
import { configSchema, type MoveFileConfig } from "./config.ts";
import { inputSchema, type MoveFileInput } from "./input.ts";

const outcome = z.enum(["moved", "copied", "skipped", "already_moved"]);

const outputSchema = z.strictObject({
  outcome: outcome.describe(
    "`copied`: the source stays; `skipped`: another file had that path; `already_moved`: the source did not exist any more.",
  ),
  store: z.string(),
  path: z.string().describe("In the destination store."),
  bytes: z.number().int(),
  sha256: z.string().describe("Of what is at the destination."),
});

/** Repeatable at every step. `options` name the stores that only the operator opens. */
export function moveFile(options: StoreOptions = {}): Satellite<MoveFileInput, MoveFileConfig> {
  return defineSatellite<MoveFileInput, MoveFileConfig>({
    name: "move-file",
    description:
      "Moves a file within cloud storage or a folder, from one store to another, or from the project's files to a store. The source is deleted when its copy was read back whole.",
    input: inputSchema,
    config: configSchema,
    output: outputSchema,
    isRepeatable: true,
    destination: ({ config }) => destinationOf(config.store),
    destinationConcurrency: STORE_CONCURRENCY,
    run: loadedRun(async () => (await import("./run.ts")).runWith(options)),
  });
}
