/**
 * `parse-with-docling`: documents to Markdown, text or JSON, by `run.ts`.
 */
import { z } from "../../../schema.ts";
import { defineSatellite } from "../../sdk/define.ts";
import { loadedRun } from "../../sdk/loaded_run.ts";
import type { Satellite } from "../../sdk/satellite.ts";
import { hostOf } from "../exchange/exchange.ts";
import { storedFile } from "../files/file_reference.ts";
import { configSchema, type ParseConfig } from "./config.ts";
import { inputSchema, type ParseInput } from "./input.ts";
import type { ParseOptions } from "./run.ts";

const documentFields = {
  name: z.string(),
  engine: z.enum(["embedded", "docling"]).describe("What read it."),
  package: z.string().nullable().describe("Of the embedded engine."),
  format: z.enum(["markdown", "text", "json"]),
  text: z.string().nullable().describe("Markdown or text, where there is room; otherwise in `file`."),
  data: z.json().describe("With `json`: the document, where there is room; otherwise in `file`."),
  file: storedFile.nullable().describe("Where it was kept."),
  pages: z.number().int().nullable().describe("Of a PDF, by the embedded engine."),
  is_partial: z
    .boolean()
    .describe("Whether only a part was read: by the server, or of a PDF with pages without text."),
  pages_without_text: z
    .array(z.number().int())
    .describe(
      "Of a PDF, by the embedded engine: the numbers of its pages without text, such as scanned ones.",
    ),
};

const failedDocument = z.strictObject({
  name: z.string(),
  error: z.strictObject({ code: z.string(), message: z.string() }),
});

const outputSchema = z.union([
  z.strictObject(documentFields),
  z.strictObject({
    documents: z
      .array(z.union([z.strictObject(documentFields), failedDocument]))
      .describe("In the order of `files`; one that cannot be parsed has an `error`."),
    failed: z.number().int().describe("How many have one."),
  }),
]);

/** Repeatable. The embedded engine runs in separate processes, which all executions share. */
export function parseWithDocling(options: ParseOptions = {}): Satellite<ParseInput, ParseConfig> {
  return defineSatellite<ParseInput, ParseConfig>({
    name: "parse-with-docling",
    description:
      "Turns documents into Markdown, text or JSON: PDF, docx, HTML, Markdown, CSV and text by itself, everything else through a docling server.",
    input: inputSchema,
    config: configSchema,
    output: outputSchema,
    isRepeatable: true,
    destination: ({ config }) => (config.server === undefined ? undefined : hostOf(config.server.url)),
    run: loadedRun(async () => (await import("./run.ts")).runWith(options)),
  });
}
