/**
 * Configuration of a command from its options: a file, a price sheet, and options that take precedence over the file.
 */
import { type ConfigOptions, readPricesFile } from "../engine/config/config.ts";
import { readConfiguration } from "./setup/config_file.ts";

/** Options as commander passes them. */
export interface ConfigArguments {
  readonly config?: string;
  /** The `.env` of which variables were taken. */
  readonly envFile?: string;
  /** A price sheet; its prices go before those of the configuration. */
  readonly prices?: string;
  readonly unsupportedConfig?: "drop" | "refuse";
}

/** Throws `invalid_config` naming file and place. */
export async function configOf({
  config,
  prices,
  unsupportedConfig,
}: ConfigArguments): Promise<ConfigOptions> {
  const given = unsupportedConfig === undefined ? {} : { unsupportedConfig };
  const file = { ...(config === undefined ? {} : await readConfiguration(config)), ...given };
  if (prices === undefined) return file;
  return { ...file, prices: { ...file.prices, ...(await readPricesFile(prices)) } };
}
