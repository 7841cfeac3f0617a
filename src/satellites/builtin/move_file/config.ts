/**
 * The config of `move-file`: the stores.
 */
import { z } from "../../../schema.ts";
import { type StoreConfig, storeConfig } from "../files/store_config.ts";

export interface MoveFileConfig {
  readonly store: StoreConfig;
  readonly from?: StoreConfig | undefined;
}

export const configSchema: z.ZodType<MoveFileConfig> = z.strictObject({
  store: storeConfig.describe("The destination store, and the source store unless `from` names another."),
  from: storeConfig.optional().describe("The source store."),
});
