/**
 * The config of `parse-with-docling`: the server, if there is one.
 */
import { z } from "../../../schema.ts";
import { type DoclingConfig, doclingConfig } from "./docling.ts";

export interface ParseConfig {
  readonly server?: DoclingConfig | undefined;
}

export const configSchema: z.ZodType<ParseConfig> = z.strictObject({
  server: doclingConfig
    .optional()
    .describe(
      "A docling server, which also reads pictures, scans and office files. Default: the embedded engine.",
    ),
});
