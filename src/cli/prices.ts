/**
 * Configuration and price sheet of a command, as given on its line.
 */
import { type ConfigOptions, readConfigFile, readPricesFile } from "../engine/config.ts";

/** Options as commander gives them. */
export interface ConfigArguments {
  readonly config?: string;
  /** A price sheet; its prices go before those of the configuration. */
  readonly prices?: string;
}

/** Throws `invalid_config` naming file and place. */
export async function configOf({ config, prices }: ConfigArguments): Promise<ConfigOptions> {
  const file = config === undefined ? {} : await readConfigFile(config);
  if (prices === undefined) return file;
  return { ...file, prices: { ...file.prices, ...(await readPricesFile(prices)) } };
}
