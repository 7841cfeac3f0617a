/**
 * The input of `forward-logs`: entries, or a file of them.
 */
import { z } from "../../../schema.ts";
import type { Schema } from "../../sdk/satellite.ts";
import { fileIdOrReference } from "../files/file_reference.ts";
import { type EntryInput, entryInput } from "./entry.ts";

const ENTRIES_MAX = 10_000;

/** One of the two. */
export interface LogInput {
  readonly entries?: readonly EntryInput[] | undefined;
  readonly file_id?: string | undefined;
}

export const input: Schema<LogInput> = z
  .strictObject({
    entries: z.array(entryInput).max(ENTRIES_MAX).optional().describe("The entries themselves."),
    file_id: fileIdOrReference
      .optional()
      .describe(
        "A file, by its id or a reference that another satellite gave: each line is an entry as JSON, or the message itself.",
      ),
  })
  .refine(({ entries, file_id }) => (entries === undefined) !== (file_id === undefined), {
    message: "set either entries or file_id",
  });
