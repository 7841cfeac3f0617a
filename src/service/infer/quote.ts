/**
 * POST /v0/quote: what a list of items would take and cost, before it is submitted.
 *
 * Every model is quoted for every window. Limits: 64 different slas and 64 files, as in a task; 1,000 different models.
 */
import type { Disk } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { itemLine } from "../../jsonl/items.ts";
import { z } from "../../schema.ts";
import type { FileIndex, Files } from "../../tasks/files/files.ts";
import { isPostedList, volumeBytes } from "../../tasks/lots/request_spool.ts";
import { itemUnder } from "../../tasks/shapes/request_schema.ts";
import type { RequestItem } from "../../tasks/shapes/requests.ts";
import { SLA_MINUTES_MAX } from "../../work/sla.ts";
import type { ServiceContext } from "../context.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { checkedItems } from "../http/infer_body.ts";
import { requestItems } from "../shapes/item_schema.ts";
import { schemaOf } from "./schema_header.ts";

/** Windows that are quoted besides the earliest one. */
const SLAS: readonly number[] = [60, 1_440];
const SLAS_MAX = 64;
const FILES_MAX = 64;
const MODELS_MAX = 1_000;
/** A read of a file. */
const READ_BYTES = 64 * 1024;

const amount = z.number().nullable().describe("USD; null when no price is known.");
const seconds = z.number().nullable();
const quoteAnswer = z
  .looseObject({
    items: z.number().int(),
    rejected_lines: z.number().int().describe("Lines of files that would fail before anything is sent."),
    first_fault: z
      .object({ line: z.number().int(), code: z.string(), message: z.string() })
      .optional()
      .describe("The first of them."),
    earliest_sla: z.number().int().nullable().describe("Minutes; null when even 30 days do not suffice."),
    billed_usd: z.number().describe("What providers are expected to bill, for models with a known price."),
    billed_usd_low: z
      .number()
      .describe("What is billed is between this and `billed_usd_high`, 90 times in 100 where it was learnt."),
    billed_usd_high: z.number(),
    list_usd: z.number().describe("Of the models with a known price."),
    basis: z.string().describe("What the expected output is based on: `learnt n=340`, or `ceiling`."),
    finish: z
      .looseObject({ expected_seconds: seconds, early_seconds: seconds, late_seconds: seconds })
      .describe("When the work is done in realtime; 80 times in 100 between the last two."),
    price_changes: z
      .array(z.looseObject({ model: z.string(), at: z.string() }))
      .describe("Prices that are known to change until then."),
    slas: z.array(
      z.looseObject({
        sla_minutes: z.number().int(),
        price_factor: z
          .number()
          .describe("At least what the work is expected to cost, and the margin; 0.3 to 1."),
        usd: amount,
        is_feasible: z.boolean(),
      }),
    ),
    time: z.looseObject({
      seconds: z.number(),
      bound_by: z.string().describe("What sets the time: a limit, latency, or a backlog."),
      basis: z.enum(["learnt", "assumed"]).describe("Whether the speed of the providers was measured."),
    }),
    models: z.array(
      z.looseObject({
        model: z.string(),
        items: z.number().int(),
        expected_output_tokens: z.number().int(),
        expected_output_tokens_low: z.number().int(),
        expected_output_tokens_high: z.number().int(),
        items_uncounted: z
          .number()
          .int()
          .min(1)
          .optional()
          .describe("Items with audio, files or images that no formula counts; absent without any."),
        expected_output_basis: z
          .array(z.enum(["learnt of the system prompt", "learnt of the model", "default"]))
          .describe(
            "The mean of earlier answers; without earlier answers 512 tokens, and at most half of the limit.",
          ),
        learnt_answers: z.number().int().describe("Answers that it was learnt from."),
      }),
    ),
    unpriced_models: z.array(z.string()),
    unpriced_items: z.number().int().min(0).describe("Items of these models: the sums are without them."),
  })
  .meta({ id: "Quote" });

export function registerQuoteRoutes(
  app: FastifyInstance,
  { engine, files, disk, requestBounds }: ServiceContext,
): void {
  app.post("/v0/quote", {
    config: { scope: "infer:read", headers: ["x-perigee-schema"] },
    validatorCompiler: () => (data) => ({ value: data }), // checked one by one, with their index
    schema: {
      summary: "Price and earliest sla of items that are not submitted",
      description:
        "The body of POST /v0/infer/, at most 10 MiB, 64 different slas, 64 files and 1,000 different models; the slas of its items are quoted too.",
      tags: ["inference"],
      body: requestItems,
      response: { 200: quoteAnswer, ...failures(404, 410) },
    },
    handler: async (request) => {
      const schema = await schemaOf(request);
      const given = checkedItems(request.body, requestBounds);
      const items = schema === undefined ? given : given.map((item) => itemUnder(item, schema));
      const { project } = request.caller;
      const slas = slasOf(items);
      refuseFiles(items);
      const indexes = await indexesOf(items, project, files);
      const found = await engine.quote(linesOf(items, indexes, disk), {
        ...{ project, isPosted: isPostedList(items), slas, modelsMax: MODELS_MAX },
        sizeBytes: volumeBytes(items, (id) => indexes.get(id)?.bytes ?? 0),
      });
      const minutes = Math.max(1, Math.ceil(found.time.seconds / 60));
      return { ...found, earliest_sla: minutes <= SLA_MINUTES_MAX ? minutes : null };
    },
  });
}

function slasOf(items: readonly RequestItem[]): number[] {
  const given = new Set(items.flatMap(({ sla }) => (sla === undefined ? [] : [sla])));
  if (given.size > SLAS_MAX)
    throw new PerigeeError("too_many", `a quote has at most ${SLAS_MAX} different slas`);
  return [...new Set([...SLAS, ...given])].sort((a, b) => a - b);
}

/** Each is read, also one that occurs twice, which a task refuses. */
function refuseFiles(items: readonly RequestItem[]): void {
  const files = items.filter((item) => "file_id" in item);
  if (files.length > FILES_MAX) throw new PerigeeError("too_many", `a quote has at most ${FILES_MAX} files`);
}

/** Throws `not_found` before anything is read. */
async function indexesOf(
  items: readonly RequestItem[],
  project: string,
  files: Files,
): Promise<ReadonlyMap<string, FileIndex>> {
  const indexes = new Map<string, FileIndex>();
  for (const item of items)
    if ("file_id" in item) indexes.set(item.file_id, await files.index(project, item.file_id));
  return indexes;
}

async function* linesOf(
  items: readonly RequestItem[],
  indexes: ReadonlyMap<string, FileIndex>,
  disk: Disk,
): AsyncGenerator<Uint8Array> {
  for (const [index, item] of items.entries()) {
    if ("file_id" in item) {
      yield* bytesOf(disk, indexes.get(item.file_id)?.path as string); // found before
      yield Buffer.from("\n");
    } else yield Buffer.from(`${itemLine({ ...item, key: String(index) }, `item ${index}`)}\n`);
  }
}

async function* bytesOf(disk: Disk, path: string): AsyncGenerator<Uint8Array> {
  const file = await disk.open(path, "read");
  try {
    for (let position = 0; ; ) {
      const chunk = new Uint8Array(READ_BYTES);
      const length = await file.read(chunk, position);
      if (length === 0) return;
      position += length;
      yield chunk.subarray(0, length);
    }
  } finally {
    await file.close();
  }
}
