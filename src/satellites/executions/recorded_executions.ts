/**
 * Executions as versions before 2026-11-24 stored them, to be moved into the work log.
 */
import type { JobEnd, JobError } from "../../jobs/job.ts";
import type { RecordedJobs } from "../../jobs/job_migration.ts";
import type { StoredRecord } from "../../store/records.ts";
import type { JsonObject } from "../../work/json.ts";
import type { Member } from "../sdk/member.ts";
import type { SatelliteReference } from "../sdk/reference.ts";
import type { ExecutionFacts } from "./execution_record.ts";

export const RECORDED_EXECUTIONS: RecordedJobs<ExecutionFacts> = {
  ...{ shown: "execution", open: "execution_open", notes: "execution_notes" },
  endOf,
};

interface RecordedExecution {
  readonly satellite: SatelliteReference;
  readonly sla: string;
  readonly deadlineWallMs: number;
  readonly member?: Member;
  readonly status: JobEnd["status"];
  readonly updatedWallMs?: number;
  readonly error?: JobError | null;
  readonly retries?: number;
}

function endOf({
  id,
  project,
  createdWallMs,
  body,
  payload,
}: StoredRecord): ReturnType<RecordedJobs<ExecutionFacts>["endOf"]> {
  const recorded = JSON.parse(body) as RecordedExecution; // written by an earlier version of this module
  const { status, updatedWallMs: wallMs = createdWallMs, error = null, retries = 0, ...rest } = recorded;
  const facts = {
    ...{ id, project, createdWallMs, member: undefined, ...rest },
    ...{ keyId: undefined, isBeta: false, destination: undefined }, // not kept of those that had ended
  };
  const text = status === "completed" && payload !== undefined ? new TextDecoder().decode(payload) : "null";
  const output = JSON.parse(text) as JsonObject | null; // as above
  return { facts, end: { status, output, error, wallMs, attempts: retries + 1 } };
}
