/**
 * The options of an engine: those that a configuration file may hold, and those that only code can set.
 */
import type { Clock } from "../clock.ts";
import type { Disk } from "../disk.ts";
import type { Transport } from "../dispatch/transport.ts";
import { PerigeeError } from "../errors.ts";
import type { Measurer } from "../shard/measurer.ts";
import type { Store } from "../store/store.ts";
import { type ConfigOptions, checkOptions } from "./config.ts";
import type { EngineObserver } from "./observer.ts";

/** Options of `createEngine`. */
export interface EngineOptions extends ConfigOptions {
  /** Where state is kept; one engine at a time. */
  readonly dataDir: string;
  /**
   * Where figures that were learnt about providers are kept (limits, latencies, lengths of answers), for later engines;
   * several engines and processes may use one folder. Default: `dataDir`. False: nothing is kept.
   */
  readonly stateDir?: string | false;
  /** Variables for keys, base URLs and limits. Default `process.env`; `{}` to read none. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Seams, for tests and for hosts other than a local machine. */
  readonly clock?: Clock;
  readonly transport?: Transport;
  readonly disk?: Disk;
  readonly store?: Store;
  readonly measurer?: Measurer;
  /** Called with what the engine does. */
  readonly observer?: EngineObserver;
  /** Called with a sentence for the operator that no call throws, such as that the data folder was migrated. */
  readonly onNotice?: (message: string) => void;
}

/** Those that no configuration file holds; a new one does not compile before it is named here. */
const IN_CODE: Readonly<Record<Exclude<keyof EngineOptions, keyof ConfigOptions>, true>> = {
  dataDir: true,
  stateDir: true,
  env: true,
  clock: true,
  transport: true,
  disk: true,
  store: true,
  measurer: true,
  observer: true,
  onNotice: true,
};

/** The options of a configuration among them. Throws `usage` without a data folder, `invalid_config` for what is not known. */
export async function checkedOptions(options: EngineOptions): Promise<ConfigOptions> {
  const { dataDir } = options;
  if (typeof dataDir !== "string" || dataDir === "")
    throw new PerigeeError("usage", `options: dataDir must be the path of a folder, got ${typeof dataDir}`);
  const config = Object.entries(options).filter(([name]) => !Object.hasOwn(IN_CODE, name));
  return checkOptions(Object.fromEntries(config), "options", Object.keys(IN_CODE));
}
