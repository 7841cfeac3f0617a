/**
 * Batch inference as a satellite: a prompt, a list of prompts, or a file of them, through the engine by `run.ts`.
 */
import { defineSatellite } from "../../sdk/define.ts";
import { loadedRun } from "../../sdk/loaded_run.ts";
import type { Satellite } from "../../sdk/satellite.ts";
import { type Config, configSchema } from "./config.ts";
import { type Input, inputSchema } from "./input.ts";
import type { BatchInferenceOptions } from "./run.ts";

/** Repeatable: the task is found by its id. Fails as the object of a single prompt did; a list or file reports each. */
export function batchInference(options: BatchInferenceOptions): Satellite<Input, Config> {
  return defineSatellite<Input, Config>({
    name: options.name,
    description: options.description,
    input: inputSchema,
    config: configSchema,
    isRepeatable: true,
    run: loadedRun(async () => (await import("./run.ts")).runWith(options)),
  });
}
