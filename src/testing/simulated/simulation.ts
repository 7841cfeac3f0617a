/**
 * Puts an engine together with a simulated world, and runs it.
 *
 *   opening (real time: modules are loaded) -> running (virtual) -> closed
 */
import { type ConfigOptions, resolveConfig } from "../../engine/config/config.ts";
import { importModules } from "../../engine/config/own_providers.ts";
import type { EngineOptions } from "../../engine/engine.ts";
import { createEngine, type LibraryLine, type LibraryRun } from "../../engine/library.ts";
import { KNOWN_PROVIDERS } from "../../providers/registry.ts";
import { createInlineMeasurer } from "../../shard/measurer.ts";
import { createMemoryStore } from "../../store/memory.ts";
import { FakeClock } from "../fake_clock.ts";
import { MemoryDisk } from "../memory_disk.ts";
import { createRandom } from "../random.ts";
import { ScriptedTransport } from "../scripted_transport.ts";
import { SimulatedProviders } from "./simulated_providers.ts";
import { checkSimulation } from "./simulation_check.ts";
import type { SimulationEvent, SimulationOptions, SimulationResult } from "./simulation_terms.ts";

const OUTPUT = "/out.jsonl";
const LIMITS = { lineBytesMax: 10 * 1024 * 1024, depthMax: 64, keyBytesMax: 512 };

/** See `simulate`. */
export async function runSimulation(options: SimulationOptions): Promise<SimulationResult> {
  checkSimulation(options);
  const { items, run: given = {}, seed = 1, wallMs } = options;
  const clock = new FakeClock({ seed, ...(wallMs === undefined ? {} : { wallMs }) });
  const config = withKeys(options);
  const { providers } = resolveConfig(config, {}, await importModules(config.providers));
  const stop = new AbortController();
  let fault: { readonly reason: unknown } | undefined;
  const failed = (reason: unknown): void => {
    fault ??= { reason };
    stop.abort(reason);
  };
  const tell = (event: SimulationEvent): void => {
    try {
      if (fault === undefined) options.check?.(event);
    } catch (reason) {
      failed(reason);
    }
  };
  const served = new SimulatedProviders(
    providers,
    options.providers ?? {},
    clock,
    createRandom(seed + 1),
    tell,
  );
  const wire = new ScriptedTransport(clock, (request, { nowMs }) => {
    try {
      return served.script(request, nowMs);
    } catch (reason) {
      failed(reason); // an `answer` of the caller
      return { kind: "hang" };
    }
  });
  const notices: string[] = [];
  const seams: Omit<EngineOptions, keyof ConfigOptions> = {
    ...{ dataDir: "/data", stateDir: "/state", env: {}, clock, transport: wire },
    disk: new MemoryDisk({ clock, latencyMs: 0 }),
    store: createMemoryStore(),
    measurer: createInlineMeasurer({ providers, ...LIMITS }),
    onNotice: (message) => void notices.push(message),
  };
  const engine = await createEngine({ ...config, ...seams });
  const startedMs = clock.nowMs();
  try {
    const run = engine.run(items, { ...given, out: OUTPUT });
    stop.signal.addEventListener("abort", () => run.stop());
    const lines = linesOf(run, clock, tell);
    void lines.catch(() => undefined); // it rejects for the reason of `finished`, which is awaited first
    const summary = await clock.runUntilSettled(run.finished);
    const elapsedMs = clock.nowMs() - startedMs;
    const found = await clock.runUntilSettled(lines);
    if (fault !== undefined) throw fault.reason;
    return { summary, lines: found, requests: served.requests, elapsedMs, notices };
  } finally {
    await clock.runUntilSettled(engine.close());
  }
}

async function linesOf(
  run: LibraryRun,
  clock: FakeClock,
  tell: (event: SimulationEvent) => void,
): Promise<LibraryLine[]> {
  const lines: LibraryLine[] = [];
  for await (const line of run) {
    lines.push(line);
    tell({ type: "line", atMs: clock.nowMs(), line });
  }
  return lines;
}

/** Providers that would not send without a key get one, and those that are not known an address. */
function withKeys({ config = {}, providers = {} }: SimulationOptions): ConfigOptions {
  const given = config.providers ?? {};
  const names = new Set([...Object.keys(given), ...Object.keys(providers), ...KNOWN_PROVIDERS.keys()]);
  const keyed = [...names].map((name) => {
    const own = given[name];
    if (own !== undefined && (typeof own !== "object" || "encode" in own)) return [name, own] as const;
    const address = KNOWN_PROVIDERS.has(name) ? {} : { baseUrl: `https://${name}.simulated/v1` };
    return [name, { ...address, key: "simulated", ...own }] as const;
  });
  return { ...config, providers: Object.fromEntries(keyed) };
}
