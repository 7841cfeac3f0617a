/**
 * The input of `parse-with-docling`: which documents, and what they become.
 */
import { z } from "../../../schema.ts";
import { fileReference } from "../files/file_reference.ts";
import type { DocumentFormat } from "./parsed_document.ts";

const DOCUMENTS_MAX = 200;

export interface ParseInput {
  readonly file?: { readonly file_id: string } | undefined;
  readonly files?: readonly { readonly file_id: string }[] | undefined;
  readonly url?: string | undefined;
  readonly format: DocumentFormat;
  readonly as: "auto" | "file";
}

export const inputSchema: z.ZodType<ParseInput> = z
  .strictObject({
    file: fileReference.optional(),
    files: z.array(fileReference).min(1).max(DOCUMENTS_MAX).optional().describe("Several documents at once."),
    url: z.url().max(2_048).optional().describe("Where the document is, on the public internet."),
    format: z.enum(["markdown", "text", "json"]).default("markdown").describe("What it is turned into."),
    as: z
      .enum(["auto", "file"])
      .default("auto")
      .describe("`auto`: in the output up to 512 KiB, as a file beyond; `file`: as a file in any case."),
  })
  .refine((input) => [input.file, input.files, input.url].filter((one) => one !== undefined).length === 1, {
    message: "set one of file, files and url",
    path: ["file"],
  });
