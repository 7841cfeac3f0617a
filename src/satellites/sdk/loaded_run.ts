/**
 * `run` of a satellite whose code is loaded by its first execution: a process that never runs a satellite does not load what it needs.
 */
import { SatelliteError } from "./satellite_error.ts";

type Run<Call, Output> = (call: Call) => Promise<Output>;

/**
 * Calls what `load` resolves with, which is loaded once. Where loading fails, nothing was done: the attempt ends as `not_sent`, and
 * the next one loads again.
 */
export function loadedRun<Call, Output>(load: () => Promise<Run<Call, Output>>): Run<Call, Output> {
  let loading: Promise<Run<Call, Output>> | undefined;
  return async (call) => {
    loading ??= load();
    const run = await loading.catch((cause: unknown) => {
      loading = undefined;
      throw new SatelliteError("not_sent", "not_loaded", "the code of this satellite cannot be loaded", {
        cause,
      });
    });
    return run(call);
  };
}
