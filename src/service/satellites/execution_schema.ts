/**
 * The shapes of executions over HTTP (interface 2.7, 2.8), with what perigee adds: as schemas for checks and for the
 * description, and as bodies of answers.
 */
import type { PerigeeError } from "../../errors.ts";
import type { ExecutionHold, ExecutionView } from "../../satellites/sdk/execution.ts";
import { NAME_PATTERN, referenceText } from "../../satellites/sdk/reference.ts";
import { namedErrors, z } from "../../schema.ts";
import type { JsonObject } from "../../work/json.ts";
import { bodyIssues } from "../shapes/body_fault.ts";
import { afterId, pageFields } from "../shapes/list_page.ts";
import { timestamp } from "../shapes/timestamp.ts";

/** For a request without one. */
const SLA_DEFAULT = "24h";

/** What a request contains; the satellite's own schemas are checked later. */
export interface ExecutionBody {
  readonly input: JsonObject;
  readonly config: JsonObject;
  readonly sla: string;
}

const object = z.record(z.string(), z.unknown(), "must be an object");

export const executionRequest: z.ZodType = z
  .strictObject({
    input: object.optional().describe("As the satellite's input schema says. Default: {}."),
    config: object.optional().describe("As the satellite's config schema says. Default: {}."),
    sla: z
      .string("must be a duration")
      .optional()
      .describe('How long it may take: "90s", "30m", "24h", "7d"; at most 30 days. Default: 24h.')
      .meta({ examples: ["24h"] }),
  })
  .meta({ id: "ExecutionRequest" });

/** Returns `usage` (`details.issues`) for a body of another form. Input and config stay as they arrived. */
export function executionBody(body: unknown): ExecutionBody | PerigeeError {
  const parsed = executionRequest.safeParse(body, namedErrors);
  if (parsed.success) {
    const { input = {}, config = {}, sla = SLA_DEFAULT } = body as Partial<ExecutionBody>; // as the schema has found
    return { input, config, sla };
  }
  return bodyIssues(parsed.error);
}

const count = z.number().int().min(0);
const execution = z
  .object({
    execution_id: z.string(),
    satellite: z.string().describe("satellite/<namespace>/<name>"),
    sla: z.string(),
    status: z.enum(["pending", "completed", "failed", "cancelled", "expired"]),
    phase: z.enum(["queued", "running", "retrying"]).optional().describe("While it is pending."),
    progress: z
      .object({ done: z.number(), total: z.number().optional() })
      .optional()
      .describe("While it runs, of satellites that report it."),
    held: z
      .object({
        reason: z.enum(["outage", "rate_limited", "overloaded"]),
        code: z.string().describe("Of the last attempt."),
        message: z.string(),
        since: z.iso.datetime(),
        next_try: z.iso.datetime(),
      })
      .optional()
      .describe("While it waits for its next attempt, and the one before has done nothing."),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
    deadline: z.iso.datetime().describe("When it expires."),
    output: z
      .record(z.string(), z.unknown())
      .nullable()
      .describe("Once completed; null before and otherwise."),
    error: z
      .object({
        code: z.string(),
        message: z.string(),
        retryable: z.boolean().describe("Whether a new execution may fare better."),
      })
      .nullable()
      .describe("Why it has no output; null while it is pending and once completed."),
    retries: count.describe("Attempts after the first."),
    member: z
      .object({ cluster_id: z.string(), identifier: z.string(), index: count.optional() })
      .optional()
      .describe("Its place in the run of a cluster that submitted it."),
  })
  .meta({ id: "Execution" });

/** Named schemas of answers. */
export const executionAnswers: { readonly execution: z.ZodType; readonly executions: z.ZodType } = {
  execution,
  executions: z.object({ executions: z.array(execution), ...pageFields }).meta({ id: "ExecutionList" }),
};

/** Of any form: impossible names and ids are not found. */
export const executionParameters: z.ZodType<{
  readonly project: string;
  readonly satellite: string;
  readonly execution_id: string;
}> = z.strictObject({ project: z.string(), satellite: z.string(), execution_id: z.string() });

export const executionsQuery: z.ZodType<{
  readonly after?: string | undefined;
  readonly limit: number;
  readonly satellite?: string | undefined;
}> = z.strictObject({
  after: afterId(),
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
  satellite: z
    .string()
    .regex(new RegExp(`^${NAME_PATTERN}/${NAME_PATTERN}$`), "must be <namespace>/<name>")
    .optional()
    .describe("Only those of one satellite, as <namespace>/<name>."),
});

function heldAnswer({ reason, code, message, sinceWallMs, nextTryWallMs }: ExecutionHold): object {
  return { reason, code, message, since: timestamp(sinceWallMs), next_try: timestamp(nextTryWallMs) };
}

/** Texts are times in ISO 8601, UTC. */
export function executionAnswer(view: ExecutionView): object {
  const { satellite, member } = view;
  const place =
    member === undefined ? undefined : { cluster_id: member.clusterId, ...member, clusterId: undefined };
  return {
    execution_id: view.id,
    satellite: referenceText(satellite),
    sla: view.sla,
    status: view.status,
    phase: view.phase,
    progress: view.progress,
    held: view.held === undefined ? undefined : heldAnswer(view.held),
    created_at: timestamp(view.createdWallMs),
    updated_at: timestamp(view.updatedWallMs),
    deadline: timestamp(view.deadlineWallMs),
    output: view.output,
    error: view.error,
    retries: view.retries,
    member: place,
  };
}
