/**
 * The shapes of the inference interface (2.2 and 2.3), with what perigee adds: as schemas for checks and for the
 * description.
 */

import { HOLD_REASONS } from "../../engine/items/holds.ts";
import type { FailureCode } from "../../errors.ts";
import { suggestion } from "../../nearest.ts";
import { namedErrors, z } from "../../schema.ts";
import { RETRY_CODES } from "../../work/failure_numbers.ts";
import { bodyFault } from "./body_fault.ts";
import { afterId, pageFields } from "./list_page.ts";
import { moneyFields } from "./money_schema.ts";

/** The most objects in the answer to a submission, whose caller needs all their ids. */
export const OBJECTS_MAX: number = 10_000;
/** The most objects in the answer to a caller that reads a task. */
export const PAGE_OBJECTS_MAX: number = 1_000;

const tokens = z.number().int().min(0);
const embedding = z.union([z.array(z.number()), z.string()]);
const output = z
  .discriminatedUnion("type", [
    z.object({ type: z.literal("text"), text: z.string() }),
    z.object({
      type: z.literal("embedding"),
      embedding: embedding.optional().describe("Of one input; base64 if the item asks for it."),
      embeddings: z.array(embedding).optional().describe("Of several inputs, in their order."),
    }),
    z.object({ type: z.literal("moderation"), results: z.array(z.unknown()).describe("Of each input.") }),
  ])
  .meta({ id: "Output" });
/** What an answer holds besides its text, and what is known of the requests for it. */
const factFields = {
  parsed: z.unknown().optional().describe("The answer as a value, if the item has a schema."),
  finish_reason: z
    .enum(["stop", "length", "tool_calls", "content_filter", "refusal"])
    .optional()
    .describe("How the answer ended, such as length: cut at the token limit."),
  tool_calls: z.array(z.unknown()).optional().describe("In OpenAI's form."),
  refusal: z.string().optional().describe("The model's words for not answering."),
  reasoning: z.string().optional().describe("The model's thoughts, as far as the provider returns them."),
  logprobs: z.unknown().optional().describe("In the provider's form."),
  annotations: z.array(z.unknown()).optional().describe("In the provider's form."),
  other_candidates: z
    .array(z.looseObject({ text: z.string(), finish_reason: z.string() }))
    .optional()
    .describe("The answers after the first, with candidate_count above 1."),
  model: z.string().optional().describe("The model that answered."),
  cost: z
    .object({
      list_usd: z.number(),
      billed_usd: z.number().describe("What the provider bills."),
      ambiguous_usd: z
        .number()
        .describe("The most that requests without a known result may have cost besides."),
      tier: z.string().nullable().describe("The tier that the provider served; null: not known."),
      price_version: z.string().nullable().describe("The source of the price; null: the price is not known."),
      is_estimated: z
        .boolean()
        .optional()
        .describe(
          "True: the provider counted no tokens, no exact price is known, or ambiguous_usd is above 0.",
        ),
    })
    .optional(),
  latency_ms: tokens.optional().describe("Of the last request."),
  late: z
    .literal(true)
    .optional()
    .describe("The answer came from a batch and was collected after the deadline."),
  cached: z.literal(true).optional().describe("Answered from the cache, without a request."),
  attempts: tokens.optional().describe("How often the item was tried."),
  provider_request_id: z.string().optional().describe("The provider's id of the last request."),
  metadata: z.record(z.string(), z.unknown()).optional().describe("The item's own."),
  warnings: z
    .array(z.object({ code: z.enum(["dropped", "text_replaced"]), setting: z.string().optional() }))
    .optional()
    .describe("What was left out of the request, or changed in it."),
};
const failure = z
  .object({
    code: z.string(),
    message: z.string(),
    retryable: z.boolean(),
    attempts: z.number().int(),
    ambiguous_attempts: z.number().int(),
    provider: z.string().optional(),
    provider_status: z.number().int().optional(),
    line: z.number().int().optional(),
    answer: z.string().optional().describe("The last answer, if it did not fit its schema."),
    reasoning: z.string().optional().describe("What the model thought before it ended without an answer."),
  })
  .meta({ id: "Failure" });
const holdFields = {
  reason: z.enum(HOLD_REASONS),
  since: z.iso.datetime(),
  next_try: z.iso.datetime().nullable().describe("Null: waits for a change by the operator."),
  provider: z.string().optional(),
  model: z.string().optional(),
  code: z.string().optional().describe("Of the last failure, as in an error."),
  provider_status: z.number().int().optional().describe("The HTTP status of the last failure."),
};
const lastError = z
  .object({ code: z.string(), provider_status: z.number().int().optional() })
  .meta({ id: "LastError" });
const objectHold = z.object(holdFields).meta({ id: "ObjectHold" });
const taskHold = z
  .object({ ...holdFields, items: z.number().int().min(0).describe("Items that wait for it.") })
  .meta({ id: "TaskHold" });
const itemObject = z
  .object({
    object_id: z.string(),
    status: z.enum(["submitted", "completed", "failed", "expired", "cancelled"]),
    phase: z.enum(["queued", "running", "retrying"]).optional(),
    held: objectHold.optional().describe("While something holds it that is not its own fault."),
    last_error: lastError.optional().describe("While it is retrying: how its last request failed."),
    usage: z.object({
      input_tokens: tokens,
      price_factor: z.number(),
      output_tokens: tokens.optional().describe("Once final; reasoning included."),
      cached_tokens: tokens.optional(),
      cache_write_tokens: tokens.optional(),
      reasoning_tokens: tokens.optional(),
    }),
    output: output.optional().describe("Once completed."),
    error: failure.nullable(),
    ...factFields,
  })
  .meta({ id: "Object" });
const count = z.number().int().min(0);
const taskFields = {
  status: z.enum(["submitted", "completed", "failed"]),
  task_id: z.string(),
  total_items: count,
  counts: z.object({
    submitted: count,
    completed: count,
    failed: count,
    expired: count,
    cancelled: count,
  }),
  is_cancelled: z.boolean(),
  created_at: z.iso.datetime(),
  deadline: z.iso.datetime().nullable().describe("The latest of its items; null: without an sla."),
  finished_at: z.iso.datetime().nullable(),
  eta: z.iso
    .datetime()
    .nullable()
    .describe("Estimated end; null: over, or not known, as while an account is stopped or a cap is used up."),
  sla_at_risk: z
    .boolean()
    .optional()
    .describe("While it is open: whether items with an sla are expected to end after their deadline."),
  held: z.array(taskHold).optional().describe("What holds items of it; absent while nothing does."),
  usage: z.object({ input_tokens: tokens, output_tokens: tokens, ...moneyFields }),
  output_url: z.string().optional().describe("Only when Output-Format: jsonl was requested."),
};
const taskHead = z.object(taskFields).meta({ id: "TaskHead" });
const wholeTask = z.object({
  ...taskFields,
  objects: z
    .array(itemObject)
    .max(OBJECTS_MAX)
    .optional()
    .describe("Absent in the answer to a POST with an output file."),
  has_more: z.boolean().describe("Whether objects follow; ask for them with after=last_id."),
  last_id: z.string().nullable(),
});
const task = wholeTask.meta({ id: "Task" });
const retried = wholeTask
  .extend({
    retried: count.describe("Items that run again by this request."),
    hint: z.string().optional().describe("Why no item runs again; only when retried is 0."),
  })
  .meta({ id: "RetriedTask" });

/** The body of a retry, which may be left out. */
export interface RetryRequest {
  readonly codes?: readonly FailureCode[] | undefined;
}

/** Its schema. */
export const retryRequest: z.ZodType<RetryRequest | undefined> = z
  .strictObject({
    codes: z
      .array(z.enum(RETRY_CODES, { error: ({ input }) => unknownCode(String(input)) }))
      .min(1)
      .optional()
      .describe("Items that ended with one of these, permanent errors too."),
  })
  .optional()
  .meta({ id: "Retry" });

/** A body of it; throws `usage` (`details.param`). */
export function checkedRetry(body: unknown): RetryRequest {
  const parsed = retryRequest.safeParse(body ?? undefined, namedErrors); // Fastify passes null for an absent body
  if (parsed.success) return parsed.data ?? {};
  throw bodyFault(parsed.error);
}

function unknownCode(given: string): string {
  const hint = suggestion(given, RETRY_CODES);
  return `${JSON.stringify(given.slice(0, 64))} is not the code of an error${hint === "" ? "" : `; ${hint}`}`;
}

/** Named schemas of answers. */
export const answers: {
  readonly task: z.ZodType;
  readonly retried: z.ZodType;
  readonly object: z.ZodType;
  readonly tasks: z.ZodType;
  readonly removed: z.ZodType;
} = {
  task,
  retried,
  object: itemObject,
  tasks: z.object({ tasks: z.array(taskHead), ...pageFields }).meta({ id: "TaskList" }),
  removed: z.object({ task_id: z.string(), deleted: z.literal(true) }).meta({ id: "DeletedTask" }),
};

/** The empty body of a 304. */
export const unchanged: z.ZodType = z.undefined().describe("Nothing changed since the ETag.");

const after = afterId();

/** `?after=&limit=` of tasks. */
export const pageQuery: z.ZodType<{ readonly after?: string | undefined; readonly limit: number }> =
  z.strictObject({ after, limit: z.coerce.number().int().min(1).max(1_000).default(1_000) });

/** The same of the objects of a task. */
export const objectsQuery: typeof pageQuery = z.strictObject({
  after,
  limit: z.coerce.number().int().min(1).max(PAGE_OBJECTS_MAX).default(PAGE_OBJECTS_MAX),
});

export const idParameter: z.ZodType<{ readonly id: string }> = z.strictObject({ id: z.string() });
