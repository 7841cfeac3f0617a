/**
 * Clusters for the command line: the stack of a service without its server, for the project `local`.
 *
 * A user of the data folder may run vendor satellites, so the caller has no key and the beta flag.
 */
import { mkdir } from "node:fs/promises";
import { systemClock } from "../../clock.ts";
import type { ClusterIssue, Clusters } from "../../clusters/cluster.ts";
import { checkDeclaration } from "../../clusters/declaration/check.ts";
import type { OpenedSatellites } from "../../clusters/open.ts";
import { openEngine } from "../../engine/engine.ts";
import { vendorSatellites } from "../../satellites/builtin/vendor.ts";
import { noSatellite } from "../../satellites/kinds/catalogue_refusals.ts";
import type { SatelliteResolver } from "../../satellites/sdk/catalogue.ts";
import type { ExecutionCaller } from "../../satellites/sdk/execution.ts";
import { VENDOR_NAMESPACE } from "../../satellites/sdk/reference.ts";
import type { Satellite } from "../../satellites/sdk/satellite.ts";
import { openStack } from "../../service/stack.ts";
import type { JsonObject } from "../../work/json.ts";
import { printError } from "../exit.ts";
import { readConfiguration } from "../setup/config_file.ts";

export const LOCAL: ExecutionCaller = { project: "local", keyId: undefined, isBeta: true };

const DRAIN_MS = 30_000;
const DRAIN_STEP_MS = 50;

export interface ClusterStackOptions {
  readonly dataDir: string;
  /** Name of a configuration file. */
  readonly config: string | undefined;
}

export interface ClusterStack {
  readonly clusters: Clusters;
  /** Resolves with the error when the engine cannot go on. */
  readonly failed: Promise<unknown>;
  /**
   * Submits nothing more, and resolves when no attempt is under way, at most 30 s later: one that is cut off may have done
   * its work, and not every satellite can be asked again.
   */
  drain(): Promise<void>;
  /** Cuts off what runs; the next process continues it. */
  close(): Promise<void>;
}

/** Throws as `createEngine`. Runs that an earlier process has left in the folder go on. */
export async function openClusterStack({ dataDir, config }: ClusterStackOptions): Promise<ClusterStack> {
  const file = config === undefined ? {} : await readConfiguration(config);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const options = { ...file, dataDir };
  const opened = await openEngine(options);
  try {
    const stack = await openStack(opened, { ...options, onFault: printError });
    return {
      clusters: stack.satellites.clusters,
      drain: () => drained(stack.satellites),
      failed: new Promise((resolve) => {
        opened.core.recording.failures.add(resolve);
      }),
      close: async () => {
        await stack.close();
        await opened.engine.close();
      },
    };
  } catch (error) {
    await opened.engine.close();
    throw error;
  }
}

async function drained({ clusters, executions }: OpenedSatellites): Promise<void> {
  await clusters.close();
  for (let ms = 0; ms < DRAIN_MS && executions.counts().running > 0; ms += DRAIN_STEP_MS)
    await systemClock.sleep(DRAIN_STEP_MS);
}

/** Checks against the satellites of perigee, without any folder. */
export async function checkWithoutFolder(
  declaration: string,
  input: JsonObject | undefined,
): Promise<readonly ClusterIssue[]> {
  return (await checkDeclaration(declaration, { caller: LOCAL, resolver: vendorResolver, input })).issues
    .list;
}

/** Knows only the satellites of perigee. */
const vendorResolver: SatelliteResolver = {
  resolve: async (_caller, reference) => {
    const isVendor = reference.namespace === VENDOR_NAMESPACE;
    const satellite = vendorSatellites().find(({ name }) => isVendor && name === reference.name);
    if (satellite === undefined) throw noSatellite();
    // Its schemas return objects, whose types differ from one satellite to the next.
    return { reference, kind: "vendor", satellite: satellite as Satellite, fixedConfig: {} };
  },
};
