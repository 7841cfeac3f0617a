/**
 * The config of batch inference: the model and its settings.
 */
import { z } from "../../../schema.ts";
import type { Schema } from "../../sdk/satellite.ts";

export interface Config {
  readonly model?: string | undefined;
  readonly max_tokens?: number | undefined;
  readonly temperature?: number | undefined;
  readonly instruction?: string | undefined;
  readonly answers?: "inline" | "file" | undefined;
}

export const configSchema: Schema<Config> = z.strictObject({
  model: z
    .string()
    .regex(/^[^:]+:.+$/)
    .optional()
    .describe(
      "`<provider>:<name>`. Default: what the operator has mapped this satellite to; without either an execution fails.",
    ),
  max_tokens: z.int().min(1).optional().describe("Output tokens at most, reasoning included."),
  temperature: z.number().min(0).max(2).optional().describe("0 to 2."),
  instruction: z
    .string()
    .min(1)
    .max(65_536)
    .optional()
    .meta({ "x-secret": false }) // it is sent to the model, which may repeat it
    .describe("A text before every prompt, with a blank line between them."),
  answers: z
    .enum(["inline", "file"])
    .optional()
    .describe(
      "Whether answers to prompts are returned as such or as a file of lines. Default: inline while they fit.",
    ),
});
