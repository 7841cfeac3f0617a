/**
 * The input of `get-files`: which files.
 */
import { z } from "../../../schema.ts";
import { parseGlob } from "./glob.ts";

const FILES_MAX = 100_000;

const glob = z
  .string()
  .refine((text) => parseGlob(text) !== undefined, "is not a valid pattern, or has more than 64 alternatives")
  .describe("Such as `reports/**/*.{pdf,docx}`, on the whole path within the store.");

const size = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** Patterns and bounds; sizes in bytes. */
export interface GetFilesInput {
  readonly prefix: string;
  readonly glob?: string | readonly string[] | undefined;
  readonly exclude?: string | readonly string[] | undefined;
  readonly fetch: boolean;
  readonly max_files: number;
  readonly max_file_bytes: number;
  readonly max_total_bytes: number;
  readonly on_too_large: "error" | "skip";
}

export const inputSchema: z.ZodType<GetFilesInput> = z.strictObject({
  prefix: z.string().max(1_024).default("").describe("Beginning of the paths, such as `reports/2026/`."),
  glob: z
    .union([glob, z.array(glob).min(1).max(32)])
    .optional()
    .describe("Which files; one pattern must match. Default: all."),
  exclude: z
    .union([glob, z.array(glob).min(1).max(32)])
    .optional()
    .describe("Which files not."),
  fetch: z.boolean().default(true).describe("False: only list, and fetch nothing."),
  max_files: z
    .number()
    .int()
    .min(1)
    .max(FILES_MAX)
    .default(10_000)
    .describe("More of them are an error, `too_many_files`."),
  max_file_bytes: size.default(2 ** 31).describe("A larger file is an error, `file_too_large`, or left out."),
  max_total_bytes: size.default(100e9).describe("More in all is an error, `total_too_large`."),
  on_too_large: z
    .enum(["error", "skip"])
    .default("error")
    .describe("What a file above `max_file_bytes` does."),
});
