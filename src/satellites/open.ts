/**
 * All of satellites over one data folder: secrets, the catalogue, executions, clusters.
 *
 *   opening (executions and clusters of before go on) -> open -> closing (clusters start nothing more, then executions) -> closed
 */
import type { Clock } from "../clock.ts";
import type { Egress } from "../egress/egress.ts";
import { PerigeeError } from "../errors.ts";
import type { Store } from "../store/store.ts";
import type { Files } from "../tasks/files.ts";
import type { Tasks } from "../tasks/tasks.ts";
import type { SatelliteLogLine } from "./attempt_run.ts";
import type { SatelliteResolver } from "./catalogue.ts";
import type { Executions } from "./execution.ts";
import { openExecutions } from "./executions.ts";
import { createGuardedHttp } from "./guarded_http.ts";
import { VENDOR_NAMESPACE } from "./reference.ts";
import { openSecrets } from "./secret_store.ts";
import type { Secrets } from "./secrets.ts";
import { type VendorOptions, vendorSatellites } from "./vendor.ts";

export interface OpenSatellitesOptions {
  readonly clock: Clock;
  readonly store: Store;
  readonly files: Files;
  readonly tasks: Tasks;
  readonly egress: Egress;
  readonly dataDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly vendor?: VendorOptions | undefined;
  /** Told of faults of ours; their text may hold what users sent. */
  readonly onFault?: ((error: unknown) => void) | undefined;
  readonly log?: ((line: SatelliteLogLine) => void) | undefined;
}

export interface OpenedSatellites {
  readonly secrets: Secrets;
  readonly executions: Executions;
  close(): Promise<void>;
}

/** Throws what secrets throw for a key that is not theirs. */
export async function openSatellites(options: OpenSatellitesOptions): Promise<OpenedSatellites> {
  const { clock, store, files, tasks, egress, onFault, log } = options;
  const secrets = await openSecrets(options);
  const http = createGuardedHttp(egress);
  const resolver = vendorResolver(options.vendor);
  const executions = await openExecutions({
    ...{ clock, store, resolver, secrets, http, files, tasks, onFault, log },
  });
  return { secrets, executions, close: () => executions.close() };
}

/** Those that come with perigee, for callers with the beta flag. */
function vendorResolver(options: VendorOptions = {}): SatelliteResolver {
  const all = new Map(vendorSatellites(options).map((satellite) => [satellite.name, satellite]));
  return {
    resolve: async ({ isBeta }, reference) => {
      const satellite = reference.namespace === VENDOR_NAMESPACE ? all.get(reference.name) : undefined;
      if (satellite === undefined) throw new PerigeeError("not_found", "there is no such satellite");
      if (!isBeta) throw new PerigeeError("forbidden", "the key does not have the beta flag");
      return { reference, kind: "vendor", satellite, fixedConfig: {} };
    },
  };
}
