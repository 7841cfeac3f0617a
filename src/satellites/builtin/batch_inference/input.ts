/**
 * The input of batch inference: prompts, or a file of them.
 */
import { z } from "../../../schema.ts";
import type { Schema } from "../../sdk/satellite.ts";
import { fileIdOrReference } from "../files/file_reference.ts";

const PROMPTS_MAX = 10_000;

/** Exactly one of the two. */
export interface Input {
  readonly prompt?: string | readonly string[] | undefined;
  readonly file_id?: string | undefined;
}

const prompt: z.ZodString = z.string().min(1);

export const inputSchema: Schema<Input> = z
  .strictObject({
    prompt: z
      .union([prompt, z.array(prompt).min(1).max(PROMPTS_MAX)])
      .optional()
      .describe("One prompt, or a list of up to 10,000."),
    file_id: fileIdOrReference
      .optional()
      .describe(
        'A JSONL file, by its id or a reference that another satellite gave: lines of {"key", "prompt"}, or of the layout for batch requests.',
      ),
  })
  .refine((input) => (input.prompt === undefined) !== (input.file_id === undefined), {
    message: "set either prompt or file_id",
  });
