/**
 * `perigee serve`: the service as a process.
 *
 *   opening -> {"url"} on stdout -> first SIGTERM, SIGINT or SIGHUP: draining -> exit 0; a second one ends at once
 *   not closed 35 s after the signal -> exit 0: the next process continues, as after a crash
 *   the engine cannot go on (a disk that failed): draining -> exit 74, to be started again
 *   the main thread is blocked for 30 s: exit 70, to be started again (watchdog.ts)
 */
import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { type Clock, systemClock, type Timer } from "../clock.ts";
import type { FleetTerms } from "../engine/config/config_options.ts";
import { createPerigeeService, type PerigeeService, type PerigeeServiceOptions } from "../service/index.ts";
import { writeLog } from "./closed_output.ts";
import { emptyCoreDumps, refuseHeapSnapshots } from "./dumps.ts";
import { exitCodeOf, printError } from "./exit.ts";
import { boundHeap, freeHeap } from "./heap.ts";
import { readConfiguration } from "./setup/config_file.ts";
import { CONFIG_NAMES } from "./setup/found_files.ts";
import { signalled } from "./signals.ts";
import { startWatchdog, watchdogMs } from "./watchdog.ts";

/** Options as commander parses them. */
interface ServeArguments extends Partial<FleetTerms> {
  readonly host: string;
  readonly port: number;
  readonly data: string;
  readonly config?: string;
  readonly behindProxy?: boolean;
  readonly publicUrl?: string;
  readonly defaultSla?: string;
  readonly metricsPort?: number;
  readonly logLevel: "info" | "error";
}

/** Requests under way have 30 s; to record and close takes less than the rest. */
const CLOSE_MS_MAX = 35_000;

/** Returns the exit code when the service has ended; throws for what `exitCodeOf` knows. */
export async function serve(options: Record<string, unknown>): Promise<number> {
  emptyCoreDumps();
  refuseHeapSnapshots(process.env, process.execArgv);
  const given = options as unknown as ServeArguments; // commander's own shape, declared in main.ts
  const file = given.config === undefined ? {} : await readConfiguration(given.config);
  if (given.config === undefined) noteUnused(CONFIG_NAMES.find((name) => existsSync(name)));
  const stillMsMax = watchdogMs(process.env);
  process.umask(0o077);
  const served = await open({ ...file, ...serviceOptions(given) }, given);
  const stopped = signalled();
  const watchdog = startWatchdog(systemClock, stillMsMax);
  try {
    process.stdout.write(`${JSON.stringify({ url: await served.listen() })}\n`);
    return await Promise.race([stopped, served.failed]);
  } finally {
    await closeInTime(served, systemClock);
    await watchdog.stop();
  }
}

/** A service by itself, or a worker of a fleet. */
interface Served {
  listen(): Promise<string>;
  /** Resolves with the exit code when it cannot go on. */
  readonly failed: Promise<number>;
  close(): Promise<void>;
}

async function open(options: PerigeeServiceOptions, given: ServeArguments): Promise<Served> {
  const { host, port, store = options.fleet?.store } = given;
  if (store === undefined) {
    freeHeap();
    const service = await createPerigeeService(options);
    return {
      listen: () => service.listen({ host, port }),
      failed: failed(service),
      close: () => service.close(),
    };
  }
  const heap = boundHeap(systemClock);
  const { openFleetWorker } = await import("../fleet/index.ts");
  const { objects, role, name, privateHost, privatePort } = given;
  const said = Object.entries({ objects, role, name, privateHost, privatePort }).filter(
    ([, value]) => value !== undefined,
  );
  const fleet = { ...options.fleet, ...Object.fromEntries(said), store, host, port };
  const worker = await openFleetWorker({
    ...options,
    fleet,
    onNotice: (message) => noticeLine(message, fleet.name),
  });
  return {
    listen: async () => worker.url,
    failed: new Promise(() => undefined),
    close: () => worker.close().finally(() => heap.cancel()),
  };
}

/** In the form of the service's own log. */
function noticeLine(message: string, worker: string | undefined): void {
  const time = new Date(systemClock.wallMs()).toISOString();
  const line = { worker: worker ?? hostname(), level: "warn", time, event: "fleet", message };
  writeLog(`${JSON.stringify(line)}\n`);
}

function serviceOptions(given: ServeArguments): PerigeeServiceOptions {
  return {
    dataDir: given.data,
    isBehindProxy: given.behindProxy === true,
    ...(given.publicUrl === undefined ? {} : { publicUrl: given.publicUrl.replace(/\/+$/, "") }),
    ...(given.defaultSla === undefined ? {} : { defaultSla: given.defaultSla }),
    log: { level: given.logLevel, write: writeLog },
    ...(given.metricsPort === undefined ? {} : { metricsPort: given.metricsPort }),
  };
}

/** A service uses only what it is started with: what lies in its working folder may be anybody's. */
function noteUnused(config: string | undefined): void {
  if (config !== undefined)
    process.stderr.write(`perigee: ${config} is not used: serve needs --config ${config} to use it\n`);
}

/** Resolves when it is closed, 35 s later at the latest. */
export async function closeInTime(service: Pick<PerigeeService, "close">, clock: Clock): Promise<void> {
  let timer: Timer | undefined;
  const late = new Promise<void>((resolve) => {
    timer = clock.timer(CLOSE_MS_MAX, () => {
      process.stderr.write(`perigee: not closed after ${CLOSE_MS_MAX / 1_000} s, ending at once\n`);
      resolve();
    });
  });
  await Promise.race([service.close(), late]).finally(() => timer?.cancel());
}

async function failed({ failed }: PerigeeService): Promise<number> {
  const error = await failed;
  printError(error);
  return exitCodeOf(error);
}
