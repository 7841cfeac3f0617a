/**
 * The options of an engine: those that a configuration file may hold, and those that only code can set.
 */
import type { Clock } from "../clock.ts";
import type { Disk } from "../disk.ts";
import type { Transport } from "../dispatch/transport.ts";
import { PerigeeError } from "../errors.ts";
import type { LimitPool } from "../limits/shared/limit_pool.ts";
import type { CapPool } from "../price/shared/cap_pool.ts";
import type { Measurer } from "../shard/measurer.ts";
import type { OpenAnswerCache } from "../store/answers/answer_cache.ts";
import type { Store } from "../store/store.ts";
import {
  A_FUNCTION,
  A_TEXT,
  AN_OBJECT,
  checkCallOptions,
  kindOf,
  type OptionSchema,
} from "./call_options.ts";
import { type ConfigOptions, checkOptions } from "./config/config.ts";
import { splitOwn } from "./config/own_providers.ts";
import type { EngineObserver } from "./journal/observer.ts";

/** Options of `createEngine`. */
export interface EngineOptions extends ConfigOptions {
  /** Where state is kept; one engine at a time. */
  readonly dataDir: string;
  /**
   * Where figures that were learnt about providers are kept (limits, latencies, lengths of answers), for later engines;
   * several engines and processes may use one folder. Default: `dataDir`. False: nothing is kept.
   */
  readonly stateDir?: string | false;
  /** Variables for keys, base URLs and limits. Default `process.env`; `{}` to ignore them. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Seams, for tests and for hosts other than a local machine. */
  readonly clock?: Clock;
  readonly transport?: Transport;
  readonly disk?: Disk;
  readonly store?: Store;
  readonly measurer?: Measurer;
  /** Where rate limits are drawn from that other processes share; default: they are this process's own. */
  readonly limitPool?: LimitPool;
  /** Where caps draw from that other processes share; default: they are this process's own. */
  readonly capPool?: CapPool;
  /** Opens the cache of a run that has one. */
  readonly openAnswers?: OpenAnswerCache;
  /** Called with what the engine does. */
  readonly observer?: EngineObserver;
  /** Called with a sentence for the operator that no call throws, such as that the data folder was migrated. */
  readonly onNotice?: (message: string) => void;
}

/** Those that no configuration file holds; a new one does not compile before it is named here. */
const IN_CODE: OptionSchema<Omit<EngineOptions, keyof ConfigOptions>> = {
  dataDir: { expected: "the path of a folder", isValid: (value) => A_TEXT.isValid(value) },
  stateDir: {
    expected: "the path of a folder, or false",
    isValid: (value) => value === false || A_TEXT.isValid(value),
  },
  env: AN_OBJECT,
  clock: AN_OBJECT,
  transport: AN_OBJECT,
  disk: AN_OBJECT,
  store: AN_OBJECT,
  measurer: AN_OBJECT,
  limitPool: AN_OBJECT,
  capPool: AN_OBJECT,
  openAnswers: A_FUNCTION,
  observer: AN_OBJECT,
  onNotice: A_FUNCTION,
};

/** The options of a configuration among them. Throws `usage` without a data folder, `invalid_config` for what is not known. */
export async function checkedOptions(options: EngineOptions): Promise<ConfigOptions> {
  if (!AN_OBJECT.isValid(options))
    throw new PerigeeError(
      "usage",
      `createEngine: options must be an object such as { dataDir: "./perigee-data" }, got ${kindOf(options)}`,
    );
  const given = Object.entries(options);
  if (typeof options.store === "string")
    throw new PerigeeError(
      "usage", // without the address, which may hold a password
      "options: store must be an open store, such as await openPostgresStore({ url }) from perigee/fleet, got a text",
    );
  const inCode = given.filter(([name]) => Object.hasOwn(IN_CODE, name));
  if (options.dataDir === undefined)
    throw new PerigeeError("usage", "options: dataDir must be the path of a folder, got undefined");
  checkCallOptions(Object.fromEntries(inCode), IN_CODE, "options");
  const config = given.filter(([name]) => !Object.hasOwn(IN_CODE, name));
  const { providers, ...others } = Object.fromEntries(config);
  if (!AN_OBJECT.isValid(providers))
    return checkOptions(Object.fromEntries(config), "options", Object.keys(IN_CODE));
  const { own, rest } = splitOwn(providers);
  const named = Object.keys(rest).length === 0 ? {} : { providers: rest };
  const checked = await checkOptions({ ...others, ...named }, "options", Object.keys(IN_CODE));
  return { ...checked, providers: { ...checked.providers, ...own } };
}
