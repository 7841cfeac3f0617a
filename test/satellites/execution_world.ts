/**
 * Executions on a clock of the test's and a store that can crash, with satellites that are functions.
 */

import type { Clock } from "../../src/clock.ts";
import { PerigeeError } from "../../src/errors.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import type { SatelliteLogLine } from "../../src/satellites/executions/attempt_run.ts";
import { type ExecutionBounds, openExecutions } from "../../src/satellites/executions/executions.ts";
import type { ResolvedSatellite } from "../../src/satellites/sdk/catalogue.ts";
import type {
  ExecutionCaller,
  ExecutionRequest,
  Executions,
  ExecutionView,
} from "../../src/satellites/sdk/execution.ts";
import type { GuardedHttp } from "../../src/satellites/sdk/guarded_http.ts";
import type { Satellite } from "../../src/satellites/sdk/satellite.ts";
import { z } from "../../src/schema.ts";
import type { Store } from "../../src/store/store.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import type { Tasks } from "../../src/tasks/shapes/tasks.ts";
import { type CrashableStore, createCrashableStore } from "../../src/testing/crashable_store.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import type { JsonObject } from "../../src/work/json.ts";
import { CountedDestinations } from "../jobs/counted_destinations.ts";

export const CALLER: ExecutionCaller = { project: "one", keyId: "key", isBeta: true };

/** A satellite of these tests: input `{text?, n?}`, config `{url?, ...}`. */
export function satellite(name: string, given: Partial<Satellite> & Pick<Satellite, "run">): Satellite {
  return {
    name,
    description: "A satellite of the tests.",
    input: z.looseObject({ text: z.string().optional() }) as unknown as Satellite["input"],
    config: z.looseObject({
      url: z.url({ protocol: /^https?$/ }).optional(),
    }) as unknown as Satellite["config"],
    isRepeatable: true,
    ...given,
  };
}

export interface ExecutionWorldOptions {
  readonly bounds?: Partial<ExecutionBounds>;
  readonly commitMs?: number;
  readonly seed?: number;
}

export class ExecutionWorld {
  readonly clock: FakeClock;
  readonly store: CrashableStore;
  /** By name, in the namespace `perigee`. */
  readonly satellites = new Map<string, Satellite>();
  readonly fixedConfigs = new Map<string, JsonObject>();
  /** By project and name. */
  readonly secrets = new Map<string, string>();
  readonly faults: unknown[] = [];
  readonly lines: SatelliteLogLine[] = [];
  readonly finished: ExecutionView[] = [];
  /** Of the process that was opened last. */
  destinations = new CountedDestinations();
  /** Throws for who may not run a satellite. */
  mayRun: (caller: ExecutionCaller, name: string) => void = () => undefined;
  #bounds: Partial<ExecutionBounds> | undefined;
  #store: Store | undefined;

  constructor({ bounds, commitMs, seed = 1 }: ExecutionWorldOptions = {}) {
    this.clock = new FakeClock({ seed });
    const slow = commitMs === undefined ? {} : { clock: this.clock, commitMs };
    this.store = createCrashableStore({ random: () => this.clock.random(), ...slow });
    this.#bounds = bounds;
  }

  add(one: Satellite, fixedConfig?: JsonObject): void {
    this.satellites.set(one.name, one);
    if (fixedConfig !== undefined) this.fixedConfigs.set(one.name, fixedConfig);
  }

  /** `clock` is that of a process which a test can kill. */
  async open(clock: Clock = this.clock): Promise<Executions> {
    const store = await this.store.open();
    this.#store = store;
    this.destinations = new CountedDestinations();
    const executions = await openExecutions({
      ...{ clock, store, workLog: await openWorkLog({ clock, store }) },
      resolver: { resolve: async (caller, { name }) => this.#resolve(caller, name) },
      secrets: { reveal: async (project, name) => this.secrets.get(`${project}/${name}`) },
      ...nothing,
      destinations: this.destinations,
      onFault: (error) => {
        if (this.#store === store) this.faults.push(error); // what a killed process says is nobody's
      },
      log: (line) => this.lines.push(line),
      ...(this.#bounds === undefined ? {} : { bounds: this.#bounds }),
    });
    executions.onFinished((view) => this.finished.push(view));
    return executions;
  }

  /** The process that is open dies. */
  crash(): void {
    this.#store = undefined;
    this.store.crash();
  }

  /** What the process that is open reads from its store. */
  async peek<T>(read: (store: Store) => Promise<T>): Promise<T> {
    if (this.#store === undefined) throw new Error("no process is open");
    return read(this.#store);
  }

  #resolve(caller: ExecutionCaller, name: string): ResolvedSatellite {
    const found = this.satellites.get(name);
    if (found === undefined) throw new PerigeeError("not_found", "no such satellite");
    this.mayRun(caller, name);
    const fixedConfig = this.fixedConfigs.get(name) ?? {};
    const namespace = this.fixedConfigs.has(name) ? caller.project : "perigee";
    return { reference: { namespace, name }, kind: "vendor", satellite: found, fixedConfig };
  }
}

/** What satellites of these tests do not use. */
const nothing = {
  http: {} as GuardedHttp,
  files: {} as Files,
  tasks: {} as Tasks,
};

export function requestOf(name: string, given: Partial<ExecutionRequest> = {}): ExecutionRequest {
  return { satellite: { namespace: "perigee", name }, input: {}, config: {}, sla: "1h", ...given };
}

/** Every text that the work log of a store keeps. */
export async function textsOf(store: Store): Promise<string[]> {
  const decoded = (bytes?: Uint8Array): string => new TextDecoder().decode(bytes);
  const texts: string[] = [];
  for (const { number, body } of await store.loggedTasks({ limit: 1_000 })) {
    texts.push(body, decoded((await store.loggedTask(number))?.request));
    for (const { text } of await store.loggedAnswers(number, 0, 10)) texts.push(decoded(text));
  }
  return texts;
}
