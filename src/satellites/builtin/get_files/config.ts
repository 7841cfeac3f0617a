/**
 * The config of `get-files`: where the files are.
 */
import { z } from "../../../schema.ts";
import { type StoreConfig, storeConfig } from "../files/store_config.ts";

export interface GetFilesConfig {
  readonly store: StoreConfig;
}

export const configSchema: z.ZodType<GetFilesConfig> = z.strictObject({
  store: storeConfig.describe("Where the files are."),
});
