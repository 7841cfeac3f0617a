/**
 * Executions as jobs, and as they are shown.
 *
 * Nothing here holds a secret's value.
 */
import type { JobEnd, JobFacts, JobProgress, PendingJob } from "../../jobs/job.ts";
import type { JsonObject } from "../../work/json.ts";
import type { ExecutionView } from "../sdk/execution.ts";
import type { Member } from "../sdk/member.ts";
import type { SatelliteReference } from "../sdk/reference.ts";

/** What of an execution never changes. */
export interface ExecutionFacts extends JobFacts {
  readonly satellite: SatelliteReference;
  readonly sla: string;
  readonly deadlineWallMs: number;
  /** Who submitted it. */
  readonly keyId: string | undefined;
  readonly isBeta: boolean;
  readonly member: Member | undefined;
  /** When another execution called it, and how many are above it. */
  readonly parent?: { readonly executionId: string; readonly depth: number } | undefined;
}

/** Input and config. */
export interface GivenInput {
  readonly input: JsonObject;
  readonly config: JsonObject;
  /** Pointers of the texts in which secrets are filled in. */
  readonly secrets: readonly string[];
}

const bytes = new TextDecoder();

/** What lists of one satellite are found by. */
export function listedUnder(project: string, { namespace, name }: SatelliteReference): string {
  return `${project}/${namespace}/${name}`;
}

/** Input and config of a pending one. */
export function givenOf(payload: Uint8Array): GivenInput {
  return JSON.parse(bytes.decode(payload)) as GivenInput; // written by `execution_request.ts`
}

/** How an execution of these facts has ended. */
export function endView(facts: ExecutionFacts, { wallMs, attempts, ...end }: JobEnd): ExecutionView {
  return { ...factsView(facts), ...end, retries: retriesOf(attempts), updatedWallMs: wallMs };
}

/** One that is pending, as it is now. */
export function pendingView({ facts, progress, phase, shown }: PendingJob<ExecutionFacts>): ExecutionView {
  const held = phase === "retrying" ? holdOf(progress) : undefined;
  return {
    ...factsView(facts),
    status: "pending",
    phase,
    ...(shown === undefined ? {} : { progress: shown }),
    ...(held === undefined ? {} : { held }),
    updatedWallMs: progress.updatedWallMs,
    output: null,
    error: null,
    retries: retriesOf(progress.attempts),
  };
}

/** What of the facts is shown. */
function factsView({
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
function retriesOf(attempts: number): number {
  return Math.max(0, attempts - 1);
}

/** Undefined after an attempt that may have done something. */
function holdOf({ last, updatedWallMs, nextWallMs = updatedWallMs }: JobProgress): ExecutionView["held"] {
  if (last === undefined || last.failure === "ambiguous") return undefined;
  const { failure, code, message, sinceWallMs } = last;
  const refusal = code === "http_429" ? "rate_limited" : "overloaded";
  const reason = failure === "not_sent" ? "outage" : refusal;
  return { reason, code, message, sinceWallMs, nextTryWallMs: nextWallMs };
}
