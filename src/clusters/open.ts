/**
 * All of satellites over one data folder: secrets, the catalogue, executions, clusters.
 *
 *   opening (executions and clusters of before go on) -> open -> closing (clusters start nothing more, then executions) -> closed
 */
import type { Clock } from "../clock.ts";
import type { Egress } from "../egress/egress.ts";
import type { SatelliteTerms } from "../engine/config/config_options.ts";
import type { Destinations } from "../jobs/destinations.ts";
import type { WorkLog } from "../log/work_log.ts";
import { vendorSatellites } from "../satellites/builtin/vendor.ts";
import type { SatelliteLogLine } from "../satellites/executions/attempt_run.ts";
import { openExecutions } from "../satellites/executions/executions.ts";
import type { TrustedSatellites } from "../satellites/kinds/known_satellites.ts";
import { type CatalogueOptions, openCatalogue } from "../satellites/kinds/open_catalogue.ts";
import type { Catalogue, Registry } from "../satellites/sdk/catalogue.ts";
import type { Executions } from "../satellites/sdk/execution.ts";
import { createGuardedHttp } from "../satellites/sdk/guarded_http.ts";
import { createSecrets } from "../satellites/secrets/secret_store.ts";
import type { Secrets } from "../satellites/secrets/secrets.ts";
import type { Vault } from "../satellites/secrets/vault.ts";
import type { Store } from "../store/store.ts";
import type { Files } from "../tasks/files/files.ts";
import type { Tasks } from "../tasks/shapes/tasks.ts";
import type { Clusters } from "./cluster.ts";
import { openClusters } from "./clusters.ts";

/** What satellites need. It stays its owner's: `close` does not close it. */
export interface OpenSatellitesOptions {
  readonly clock: Clock;
  readonly store: Store;
  readonly workLog: WorkLog;
  readonly files: Files;
  readonly tasks: Tasks;
  readonly egress: Egress;
  readonly vault: Vault;
  /** Shared by all requests to hosts of users. Default: its own. */
  readonly destinations?: Destinations | undefined;
  readonly vendor?: SatelliteTerms | undefined;
  readonly trusted?: readonly TrustedSatellites[] | undefined;
  readonly isBetaKey?: CatalogueOptions["isBetaKey"];
  readonly others?: CatalogueOptions["others"];
  /** Receives faults of perigee; their text may hold what users sent. */
  readonly onFault?: ((error: unknown) => void) | undefined;
  readonly log?: ((line: SatelliteLogLine) => void) | undefined;
}

/**
 * Everything of satellites and clusters, on one store. `close` ends attempts and runs of clusters; the next process continues them.
 */
export interface OpenedSatellites {
  readonly secrets: Secrets;
  readonly catalogue: Catalogue & Registry;
  readonly executions: Executions;
  readonly clusters: Clusters;
  /** Begins no further attempt of an execution; those under way continue. */
  stop(): void;
  close(): Promise<void>;
}

/** Throws `usage` for trusted satellites of one name. */
export async function openSatellites(options: OpenSatellitesOptions): Promise<OpenedSatellites> {
  const { clock, store, files, tasks, egress, vault, onFault = () => undefined, log } = options;
  const secrets = createSecrets(options.store, options.clock, options.vault);
  const http = createGuardedHttp(egress);
  const catalogue = await openCatalogue({
    ...{ clock, store, vault, http, onFault },
    ...{ vendor: vendorSatellites(options.vendor), trusted: options.trusted, isBetaKey: options.isBetaKey },
    others: options.others,
  });
  const resolver = catalogue;
  const executions = await openExecutions({
    ...{ clock, store, resolver, secrets, http, files, tasks, onFault, log },
    workLog: options.workLog,
    destinations: options.destinations,
  });
  const clusters = await openClusters({ clock, store, executions, resolver, files, onFault });
  return {
    ...{ secrets, catalogue, executions, clusters },
    stop: () => executions.stop(),
    close: async () => {
      await clusters.close();
      await executions.close();
    },
  };
}
