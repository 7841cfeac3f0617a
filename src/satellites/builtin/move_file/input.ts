/**
 * The input of `move-file`: which file, and its destination.
 */
import { z } from "../../../schema.ts";
import { fileReference } from "../files/file_reference.ts";

const path = z.string().min(1).max(1_024);

/** Exactly one of `source` and `file`. */
export interface MoveFileInput {
  readonly source?: string | undefined;
  readonly file?: { readonly file_id: string } | undefined;
  readonly destination: string;
  readonly overwrite: "error" | "replace" | "skip";
  readonly keep_source?: boolean | undefined;
  readonly sha256?: string | undefined;
}

export const inputSchema: z.ZodType<MoveFileInput> = z
  .strictObject({
    source: path.optional().describe("Path in the source store."),
    file: fileReference.optional(),
    destination: path.describe("Path in the destination store; with a slash at its end, the folder."),
    overwrite: z
      .enum(["error", "replace", "skip"])
      .default("error")
      .describe(
        "What happens when another file has that path: an error, it is replaced, or nothing is done.",
      ),
    keep_source: z
      .boolean()
      .optional()
      .describe("Whether the source stays. Default: a file of a store is deleted, one of the project stays."),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional()
      .describe("What the file must hash to, hexadecimal; otherwise nothing is moved."),
  })
  .refine((input) => (input.source === undefined) !== (input.file === undefined), {
    message: "set either source or file",
    path: ["source"],
  });
