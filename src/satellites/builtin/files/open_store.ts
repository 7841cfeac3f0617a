/**
 * Opens the store that a config names.
 */
import type { Clock } from "../../../clock.ts";
import type { Egress } from "../../../egress/egress.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import type { ExternalStore } from "./external_store.ts";
import type { StoreConfig, StoreOptions } from "./store_config.ts";
import { openFolder } from "./store_fs.ts";
import { openOpendal } from "./store_opendal.ts";
import { openBucket } from "./store_s3.ts";

interface Network {
  readonly egress: Egress;
  readonly clock: Clock;
}

/** Opens the store of a config for one call, and closes it when `use` has ended. Throws as `openStore` does. */
export async function withStore<T>(
  config: StoreConfig,
  options: StoreOptions,
  { http, clock }: Pick<SatelliteCall, "http" | "clock">,
  use: (store: ExternalStore) => Promise<T>,
): Promise<T> {
  const store = await openStore(config, options, { egress: http.egress, clock });
  try {
    return await use(store);
  } finally {
    store.close();
  }
}

/** Throws `permanent` for names that the operator did not configure. Close it. */
export async function openStore(
  config: StoreConfig,
  options: StoreOptions,
  network: Network,
): Promise<ExternalStore> {
  switch (config.type) {
    case "s3":
      return openBucket(config, network);
    case "fs":
      return openFolder(config.root, named(options.roots, config.root, "root"));
    case "opendal":
      return openOpendal(config.place, named(options.opendal, config.place, "place"), config.options);
  }
}

function named<T>(given: Readonly<Record<string, T>> | undefined, name: string, what: string): T {
  const found = given !== undefined && Object.hasOwn(given, name) ? given[name] : undefined;
  if (found !== undefined) return found;
  const place = what === "root" ? "satellites.roots" : "satellites.opendal";
  throw new SatelliteError(
    "permanent",
    "unknown_store",
    `there is no ${what} ${JSON.stringify(name)}: the configuration (--config) names them in ${place}`,
  );
}
