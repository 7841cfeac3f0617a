/**
 * The shapes of clusters over HTTP (interface 2.9), with what perigee adds: as schemas for checks and for the description,
 * and as bodies of answers.
 */
import type { ClusterIssue, ClusterRequest, ClusterView, MemberView } from "../../clusters/cluster.ts";
import { namedErrors, z } from "../../schema.ts";
import { bodyIssues } from "../shapes/body_fault.ts";
import { pageFields } from "../shapes/list_page.ts";
import { timestamp, timestampOrNull } from "../shapes/timestamp.ts";

const object = z.record(z.string(), z.unknown(), "must be an object");

export const clusterRequest: z.ZodType = z
  .strictObject({
    declaration: z
      .union([z.string(), object], "must be YAML as text, or the same as an object")
      .describe("YAML of at most 256 KiB, or what it would be read to."),
    input: object.optional().describe("For references to `input`. At most 1 MiB. Default: {}."),
  })
  .meta({ id: "ClusterRequest" });

/** Throws `usage` (`details.issues`) for a body of another form. A text is a declaration in YAML. */
export function clusterBody(body: unknown): ClusterRequest {
  if (typeof body === "string") return { declaration: body };
  const parsed = clusterRequest.safeParse(body, namedErrors);
  if (parsed.success) return body as ClusterRequest; // as the schema has found
  throw bodyIssues(parsed.error);
}

const count = z.number().int().min(0);
const status = ["pending", "completed", "failed", "cancelled", "expired"] as const;
const time = z.iso.datetime();
const fault = z
  .object({
    code: z.string(),
    message: z.string(),
    retryable: z.boolean().describe("Whether a new run may fare better."),
  })
  .nullable();
const member = z
  .object({
    identifier: z.string(),
    name: z.string(),
    uses: z.string().describe("satellite/<namespace>/<name>"),
    needs: z.array(z.string()).describe("Identifiers that it waits for."),
    status: z.enum(["waiting", ...status, "skipped"]),
    started_at: time.nullable(),
    finished_at: time.nullable(),
    retries: count,
    execution_id: z.string().optional().describe("Of a member without `each`, once it has begun."),
    counts: z
      .object({ pending: count, completed: count, failed: count, cancelled: count, expired: count })
      .optional()
      .describe("Of a member with `each`: the states of its elements."),
    output: z
      .unknown()
      .describe(
        "Of a member with `each` a list. Null where it is too large to be shown here: its executions have it.",
      ),
    error: fault,
  })
  .meta({ id: "ClusterMember" });
const head = {
  cluster_id: z.string(),
  name: z.string().nullable(),
  status: z.enum(status),
  sla: z.string(),
  created_at: time,
  updated_at: time,
  deadline: time.describe("When it expires."),
  error: fault,
};
const issue = z.object({
  line: count.optional().describe("From 1; absent for declarations that were not text."),
  column: count.optional(),
  path: z.string().meta({ examples: ["cluster.satellites[2].input.files"] }),
  message: z.string(),
  severity: z.literal("warning").optional().describe("Absent: an error."),
});

/** Named schemas of answers. */
export const clusterAnswers: {
  readonly cluster: z.ZodType;
  readonly clusters: z.ZodType;
  readonly check: z.ZodType;
} = {
  cluster: z.object({ ...head, members: z.array(member) }).meta({ id: "Cluster" }),
  clusters: z
    .object({
      clusters: z.array(z.object(head).meta({ id: "ClusterHead" })),
      ...pageFields,
    })
    .meta({ id: "ClusterList" }),
  check: z
    .object({
      valid: z.boolean(),
      issues: z.array(issue).describe("Errors and warnings, in the order of the text."),
    })
    .meta({ id: "ClusterCheck" }),
};

export const clusterParameters: z.ZodType<{ readonly cluster_id: string }> = z.strictObject({
  cluster_id: z.string(),
});

/** With its members. Texts are times in ISO 8601, UTC. */
export function clusterAnswer(cluster: ClusterView): object {
  return { ...headAnswer(cluster), members: cluster.members.map(memberAnswer) };
}

/** Without members. */
export function headAnswer(cluster: ClusterView): object {
  return {
    cluster_id: cluster.id,
    name: cluster.name ?? null,
    status: cluster.status,
    sla: cluster.sla,
    created_at: timestamp(cluster.createdWallMs),
    updated_at: timestamp(cluster.updatedWallMs),
    deadline: timestamp(cluster.deadlineWallMs),
    error: cluster.error,
  };
}

function memberAnswer(member: MemberView): object {
  const { startedWallMs, finishedWallMs, executionId, counts } = member;
  return {
    identifier: member.identifier,
    name: member.name,
    uses: member.uses,
    needs: member.needs,
    status: member.status,
    started_at: timestampOrNull(startedWallMs),
    finished_at: timestampOrNull(finishedWallMs),
    retries: member.retries,
    ...(executionId === undefined ? {} : { execution_id: executionId }),
    ...(counts === undefined ? {} : { counts }),
    output: member.output,
    error: member.error,
  };
}

/** Whether it could be submitted now, and all that is wrong. */
export function checkAnswer(issues: readonly ClusterIssue[]): object {
  return { valid: issues.every(({ severity }) => severity === "warning"), issues };
}
