/**
 * OpenAI's batch interface on our tasks: POST, GET, list and cancel under /v1/batches.
 *
 * `completion_window` is any duration from `15m` to `30d`. Source: https://platform.openai.com/docs/api-reference/batch
 */
import { ENDPOINT_URLS } from "../../jsonl/endpoint_item.ts";
import { z } from "../../schema.ts";
import { parseDurationMs } from "../../work/sla.ts";
import type { ServiceContext } from "../context.ts";
import { cacheTtlOf } from "../http/cache_header.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { onceFor } from "../http/keyed_request.ts";
import { schemaOf } from "../infer/schema_header.ts";
import { idParameter } from "../shapes/infer_schema.ts";
import { fromBatchId, fromFileId, toBatchId, toFileId } from "../shapes/openai_ids.ts";
import { type BatchView, ServedBatches } from "./batches.ts";
import { registerOpenaiFileRoutes } from "./openai_files.ts";
import { openaiList, openaiListSchema, secondsOf } from "./openai_list.ts";

const MINUTE_MS = 60_000;
const WINDOW_MS_MIN = 15 * MINUTE_MS;
const WINDOW_MS_MAX = 30 * 24 * 60 * MINUTE_MS;
const METADATA_MAX = 16;

const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine((pairs) => Object.keys(pairs).length <= METADATA_MAX, `must have at most ${METADATA_MAX} pairs`)
  .nullable();
const newBatch = z
  .strictObject({
    input_file_id: z.string().max(64),
    endpoint: z.enum(ENDPOINT_URLS),
    completion_window: z
      .string()
      .max(8)
      .refine(isWindow, 'must be a duration from "15m" to "30d", in whole minutes')
      .describe("Any duration from 15m to 30d.")
      .meta({ examples: ["24h"] }),
    metadata: metadata.optional(),
  })
  .meta({ id: "OpenaiNewBatch" });
const time = z.number().int().nullable().describe("Unix time in seconds.");
const batchObject = z
  .object({
    id: z.string(),
    object: z.literal("batch"),
    endpoint: z.string(),
    errors: z
      .object({
        object: z.literal("list"),
        data: z.array(
          z.object({
            code: z.string(),
            message: z.string(),
            line: z.number().int().nullable().describe("Of the input, from 1."),
            param: z.null(),
          }),
        ),
      })
      .nullable()
      .describe("Once it has ended: the first 50 lines of the input that could not be read as requests."),
    input_file_id: z.string(),
    completion_window: z.string(),
    status: z.enum([
      "validating",
      "failed",
      "in_progress",
      "finalizing",
      "completed",
      "expired",
      "cancelling",
      "cancelled",
    ]),
    output_file_id: z.string().nullable(),
    error_file_id: z.string().nullable(),
    created_at: z.number().int(),
    in_progress_at: time,
    expires_at: time,
    finalizing_at: time,
    completed_at: time,
    failed_at: time,
    expired_at: time,
    cancelling_at: time,
    cancelled_at: time,
    request_counts: z.object({
      total: z.number().int(),
      completed: z.number().int(),
      failed: z.number().int(),
    }),
    metadata,
  })
  .meta({ id: "OpenaiBatch" });
const batchObjects = openaiListSchema(batchObject, "OpenaiBatchList");
const listQuery = z.strictObject({
  after: z.string().min(1).max(64).optional(),
  limit: z.coerce.number().int().min(1).max(100).default(20),
});

/** Files and batches as OpenAI's clients know them. Takes up what an earlier process left when the app gets ready. */
export function registerOpenAiRoutes(app: FastifyInstance, context: ServiceContext): void {
  registerOpenaiFileRoutes(app, context);
  const batches = new ServedBatches(context.store, context.clock, context.tasks, context.files);
  app.addHook("onReady", () => batches.open());
  app.addHook("onClose", async () => batches.close());
  registerCreate(app, batches, context);
  registerReads(app, batches);
  registerCancel(app, batches);
}

function registerCreate(
  app: FastifyInstance,
  batches: ServedBatches,
  { idempotency, cache }: ServiceContext,
): void {
  app.post<{ Body: z.infer<typeof newBatch> }>("/v1/batches", {
    config: {
      scope: "infer:write",
      event: "task.created",
      headers: ["Idempotency-Key", "x-perigee-schema", "x-perigee-cache"],
    },
    schema: {
      summary: "Begin a batch on an uploaded file (OpenAI)",
      tags: ["openai"],
      body: newBatch,
      response: { 200: batchObject, ...failures(402, 404, 409) },
    },
    handler: async (request, reply) => {
      const { input_file_id, endpoint, completion_window, metadata = null } = request.body;
      const { project } = request.caller;
      const terms = {
        endpoint,
        completionWindow: completion_window,
        windowMs: parseDurationMs(completion_window) ?? 0, // the schema has checked it
        inputFileId: fromFileId(input_file_id),
        metadata,
      };
      const schema = await schemaOf(request);
      const cacheTtl = cacheTtlOf(request, cache);
      const view = await onceFor(
        idempotency,
        { request, reply },
        {
          about: schema === undefined ? [] : [JSON.stringify(schema)],
          make: (id) => batches.create(project, { ...terms, schema, cacheTtl }, id),
          find: (id) => batches.begun(project, id),
        },
      );
      request.audited = { id: toBatchId(view.batch.id) };
      return objectOf(view);
    },
  });
}

function registerReads(app: FastifyInstance, batches: ServedBatches): void {
  app.get<{ Params: { id: string } }>("/v1/batches/:id", {
    config: { scope: "infer:read" },
    schema: {
      summary: "A batch (OpenAI)",
      tags: ["openai"],
      params: idParameter,
      response: { 200: batchObject },
    },
    handler: async ({ caller, params }) =>
      objectOf(await batches.batch(caller.project, fromBatchId(params.id))),
  });
  app.get<{ Querystring: { after?: string; limit: number } }>("/v1/batches", {
    config: { scope: "infer:read" },
    schema: {
      summary: "The batches of the project, newest first (OpenAI)",
      tags: ["openai"],
      querystring: listQuery,
      response: { 200: batchObjects },
    },
    handler: async ({ caller, query: { after, limit } }) => {
      const query = after === undefined ? { limit } : { limit, after: fromBatchId(after) };
      const { items, hasMore } = await batches.list(caller.project, query);
      return openaiList(items.map(objectOf), hasMore);
    },
  });
}

function registerCancel(app: FastifyInstance, batches: ServedBatches): void {
  app.post<{ Params: { id: string } }>("/v1/batches/:id/cancel", {
    config: { scope: "infer:write", event: "task.cancelled" },
    schema: {
      summary: "Cancel what a batch has not yet sent (OpenAI)",
      tags: ["openai"],
      params: idParameter,
      response: { 200: batchObject },
    },
    handler: async ({ caller, params }) =>
      objectOf(await batches.cancel(caller.project, fromBatchId(params.id))),
  });
}

function isWindow(text: string): boolean {
  const windowMs = parseDurationMs(text);
  if (windowMs === undefined || windowMs % MINUTE_MS !== 0) return false;
  return windowMs >= WINDOW_MS_MIN && windowMs <= WINDOW_MS_MAX;
}

function objectOf(view: BatchView): z.infer<typeof batchObject> {
  const { id, endpoint, inputFileId, completionWindow, createdWallMs, windowMs, ...batch } = view.batch;
  const { end } = batch;
  const status = statusOf(view);
  const endedAt = (kind: string): number | null => (end?.kind === kind ? secondsOf(end.endedWallMs) : null);
  return {
    id: toBatchId(id),
    object: "batch",
    endpoint,
    errors: errorsOf(view),
    input_file_id: toFileId(inputFileId),
    completion_window: completionWindow,
    status,
    output_file_id: end?.hasOutput === true ? toFileId(batch.outputFileId) : null,
    error_file_id: end?.hasErrors === true ? toFileId(batch.errorFileId) : null,
    created_at: secondsOf(createdWallMs),
    in_progress_at: status === "failed" || status === "validating" ? null : secondsOf(createdWallMs),
    expires_at: secondsOf(createdWallMs + windowMs),
    finalizing_at: maybeSeconds(end?.finalWallMs ?? view.task?.finishedWallMs),
    completed_at: endedAt("completed"),
    failed_at: endedAt("failed"),
    expired_at: endedAt("expired"),
    cancelling_at: maybeSeconds(batch.cancellingWallMs),
    cancelled_at: endedAt("cancelled"),
    request_counts: countsOf(view),
    metadata: batch.metadata === null ? null : { ...batch.metadata },
  };
}

function errorsOf({ batch: { end } }: BatchView): z.infer<typeof batchObject>["errors"] {
  const { kind, total = 0, faults = [] } = end ?? {};
  if (kind === "failed" && total === 0) return { object: "list", data: [LOST] };
  if (faults.length === 0) return null;
  return { object: "list", data: faults.map((fault) => ({ ...fault, param: null })) };
}

const LOST = {
  code: "internal_error",
  message: "the service stopped before it accepted the batch",
  line: null,
  param: null,
};

function statusOf({ batch, task }: BatchView): z.infer<typeof batchObject>["status"] {
  if (batch.end !== undefined) return batch.end.kind;
  if (task === undefined) return "validating";
  if (batch.cancellingWallMs !== undefined) return "cancelling";
  return task.status === "submitted" ? "in_progress" : "finalizing";
}

/** `failed` are all that ended without an answer. */
function countsOf({ batch, task }: BatchView): z.infer<typeof batchObject>["request_counts"] {
  const { end } = batch;
  if (end !== undefined)
    return { total: end.total, completed: end.completed, failed: end.total - end.completed };
  const { submitted = 0, completed = 0 } = task?.counts ?? {};
  const total = task?.totalItems ?? 0;
  return { total, completed, failed: total - completed - submitted };
}

function maybeSeconds(wallMs: number | undefined): number | null {
  return wallMs === undefined ? null : secondsOf(wallMs);
}
