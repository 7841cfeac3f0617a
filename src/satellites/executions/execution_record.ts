/**
 * Executions as jobs and as records.
 *
 *   collection `execution`        every one; parent: project and satellite, to list by
 *   collection `execution_open`   each pending one
 *   collection `execution_notes`  of pending ones that have taken some
 *
 * Nothing here holds a secret's value. What the collections hold is in `jobs/job_records.ts`.
 */
import type { JobEnd, JobFacts } from "../../jobs/job.ts";
import type { JobCollections, JobForm } from "../../jobs/job_records.ts";
import type { StoredRecord } from "../../store/records.ts";
import type { JsonObject } from "../../work/json.ts";
import type { ExecutionError, ExecutionStatus, ExecutionView } from "../sdk/execution.ts";
import type { Member } from "../sdk/member.ts";
import type { SatelliteReference } from "../sdk/reference.ts";

/** Where executions are stored. */
export const EXECUTIONS: JobCollections = {
  shown: "execution",
  open: "execution_open",
  notes: "execution_notes",
};

/** What of an execution never changes. */
export interface ExecutionFacts extends JobFacts {
  readonly satellite: SatelliteReference;
  readonly sla: string;
  readonly deadlineWallMs: number;
  /** Who submitted it. */
  readonly keyId: string | undefined;
  readonly isBeta: boolean;
  readonly member: Member | undefined;
  /** When another execution asked for it, and how many stand above it. */
  readonly parent?: { readonly executionId: string; readonly depth: number } | undefined;
}

/** What was given. */
export interface GivenInput {
  readonly input: JsonObject;
  readonly config: JsonObject;
  /** Pointers of the texts in which secrets are filled in. */
  readonly secrets: readonly string[];
}

const bytes = new TextDecoder();

/** How executions are stored. */
export const EXECUTION_FORM: JobForm<ExecutionFacts> = {
  collections: EXECUTIONS,
  parentOf: ({ project, satellite }) => ({ shown: listedUnder(project, satellite), open: "" }),
  bodyOf: storedExecution,
  keepsOutput: true,
};

/** What lists of one satellite are found by. */
export function listedUnder(project: string, { namespace, name }: SatelliteReference): string {
  return `${project}/${namespace}/${name}`;
}

/** A pending one is shown as it was submitted; `executions.ts` knows more. */
export function recordToView(record: StoredRecord): ExecutionView {
  const stored = JSON.parse(record.body) as StoredExecution; // written by this file
  const { payload } = record;
  const isCompleted = stored.status === "completed" && payload !== undefined;
  return {
    id: record.id,
    project: record.project,
    satellite: stored.satellite,
    sla: stored.sla,
    status: stored.status,
    createdWallMs: record.createdWallMs,
    updatedWallMs: stored.updatedWallMs ?? record.createdWallMs,
    deadlineWallMs: stored.deadlineWallMs,
    output: isCompleted ? (JSON.parse(bytes.decode(payload)) as JsonObject) : null,
    error: stored.error ?? null,
    retries: stored.retries ?? 0,
    ...(stored.member === undefined ? {} : { member: stored.member }),
  };
}

/** What was given, of a pending one. */
export function givenOf(payload: Uint8Array): GivenInput {
  return JSON.parse(bytes.decode(payload)) as GivenInput; // written by `execution_request.ts`
}

/** How an execution of these facts has ended. */
export function endView(facts: ExecutionFacts, { wallMs, attempts, ...end }: JobEnd): ExecutionView {
  return { ...factsView(facts), ...end, retries: retriesOf(attempts), updatedWallMs: wallMs };
}

/** What of the facts is shown. */
export function factsView({
  id,
  project,
  satellite,
  sla,
  createdWallMs,
  deadlineWallMs,
  member,
}: ExecutionFacts): Pick<
  ExecutionView,
  "id" | "project" | "satellite" | "sla" | "createdWallMs" | "deadlineWallMs" | "member"
> {
  const place = member === undefined ? {} : { member };
  return { id, project, satellite, sla, createdWallMs, deadlineWallMs, ...place };
}

/** Attempts - 1, at least 0. */
export function retriesOf(attempts: number): number {
  return Math.max(0, attempts - 1);
}

interface StoredExecution {
  readonly satellite: SatelliteReference;
  readonly sla: string;
  readonly deadlineWallMs: number;
  readonly member?: Member | undefined;
  readonly status: ExecutionStatus;
  readonly updatedWallMs?: number | undefined;
  readonly error?: ExecutionError | null | undefined;
  readonly retries?: number | undefined;
}

function storedExecution(
  { satellite, sla, deadlineWallMs, member }: ExecutionFacts,
  end: JobEnd | undefined,
): StoredExecution {
  // JSON leaves out what is undefined.
  return {
    satellite,
    sla,
    deadlineWallMs,
    member,
    status: end === undefined ? "pending" : end.status,
    updatedWallMs: end?.wallMs,
    error: end?.error,
    retries: end === undefined ? undefined : retriesOf(end.attempts),
  };
}
