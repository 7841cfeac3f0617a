/**
 * `simulate` of perigee/testing: the engine itself, in virtual time, against providers that behave as a test says.
 *
 *   virtual    time, disk, store, network: hours pass in milliseconds, and nothing is sent
 *   real       everything else: configuration, limits, retries, lanes, batches, deadlines, money, output
 *
 * Not simulated: threads, sockets and their speed; crashes (see `FakeClock`, `MemoryDisk` and `createCrashableStore`); batches of
 * wires other than OpenAI's, which are refused with 404, so that their items are answered in realtime.
 */
import type { SimulationOptions, SimulationResult } from "./simulation_terms.ts";

/**
 * Runs items to their end in virtual time. Rejects with `usage` for options that are not as documented, as `createEngine` and `run` do,
 * with what `check` or an `answer` throws, and with an `Error` if the run waits for something that never comes.
 */
export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const { runSimulation } = await import("./simulation.ts"); // the engine: other users of perigee/testing do not load it
  return runSimulation(options);
}
