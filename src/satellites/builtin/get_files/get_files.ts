/**
 * `get-files`: files of a store listed, and fetched into the project's file store by `run.ts`.
 */
import { z } from "../../../schema.ts";
import { defineSatellite } from "../../sdk/define.ts";
import { loadedRun } from "../../sdk/loaded_run.ts";
import type { Satellite } from "../../sdk/satellite.ts";
import { storedFile } from "../files/file_reference.ts";
import { destinationOf, STORE_CONCURRENCY, type StoreOptions } from "../files/store_config.ts";
import { configSchema, type GetFilesConfig } from "./config.ts";
import { type GetFilesInput, inputSchema } from "./input.ts";

const outputSchema = z.strictObject({
  files: z
    .array(z.record(z.string(), z.json()))
    .nullable()
    .describe(
      "References, or what the store's list says; above 900 KiB only with `file_id` and `name` (or `path` and `bytes`), and null where these are too many, too.",
    ),
  count: z.number().int().describe("Files in all."),
  bytes: z.number().int().describe("Of all of them."),
  skipped: z.number().int().describe("Files left out because of their size."),
  left_out_count: z
    .number()
    .int()
    .describe("All that was left out: because of its size, as a symbolic link, or because of its name."),
  left_out: z
    .array(
      z.strictObject({
        path: z.string().describe("U+FFFD replaces what is not UTF-8."),
        reason: z
          .enum(["too_large", "link", "name"])
          .describe(
            "`too_large`: above `max_file_bytes`; `link`: a symbolic link, which is not followed; `name`: a file or folder whose name is not UTF-8, or holds line ends, other control characters or a backslash.",
          ),
      }),
    )
    .describe("What was left out, up to 32 KiB of it."),
  is_complete: z.boolean().describe("Whether `files` has them; otherwise only `list` has them."),
  list: storedFile
    .nullable()
    .describe("Above 900 KiB: a file with all references, one on each line (JSONL)."),
});

/**
 * Repeatable: an attempt continues where the one before it was. `options` name the stores that only the operator opens.
 */
export function getFiles(options: StoreOptions = {}): Satellite<GetFilesInput, GetFilesConfig> {
  return defineSatellite<GetFilesInput, GetFilesConfig>({
    name: "get-files",
    description:
      "Lists files of cloud storage (S3 and compatibles, Azure Blob, Google Cloud Storage, WebDAV) or of a folder, and fetches them for other satellites.",
    input: inputSchema,
    config: configSchema,
    output: outputSchema,
    isRepeatable: true,
    destination: ({ config }) => destinationOf(config.store),
    destinationConcurrency: STORE_CONCURRENCY,
    // Each attempt continues where the last one was: one lost connection in a thousand files must not end the work.
    attemptsMax: 32,
    run: loadedRun(async () => (await import("./run.ts")).runWith(options)),
  });
}
