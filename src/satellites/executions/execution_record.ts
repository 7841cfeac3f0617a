/**
 * Executions as records.
 *
 *   collection `execution`        every one; body: what lists show; payload: what was given while it is pending, its output
 *                                 once it is completed; parent: project and satellite, to list by
 *   collection `execution_open`   each pending one and nothing else, so that a start reads those alone; body: how far it is
 *   collection `execution_notes`  of pending ones that have taken some; payload: the notes
 *
 * What was given goes when it is final: only its outcome is kept. Nothing here holds a secret's value.
 */
import type { RecordChange, StoredRecord } from "../../store/records.ts";
import type { JsonObject } from "../../work/json.ts";
import type { ExecutionError, ExecutionHold, ExecutionStatus, ExecutionView } from "../sdk/execution.ts";
import type { Member } from "../sdk/member.ts";
import type { SatelliteReference } from "../sdk/reference.ts";

export const EXECUTIONS = "execution";
export const OPEN_EXECUTIONS = "execution_open";
export const EXECUTION_NOTES = "execution_notes";

/** What of an execution never changes. */
export interface ExecutionFacts {
  readonly id: string;
  readonly project: string;
  readonly satellite: SatelliteReference;
  readonly sla: string;
  readonly createdWallMs: number;
  readonly deadlineWallMs: number;
  /** Who submitted it. */
  readonly keyId: string | undefined;
  readonly isBeta: boolean;
  readonly member: Member | undefined;
  /** When another execution asked for it, and how many stand above it. */
  readonly parent?: { readonly executionId: string; readonly depth: number } | undefined;
  /** Where it goes: executions of one name share a bound. */
  readonly destination: { readonly name: string; readonly concurrency: number } | undefined;
}

/** How far a pending one is. */
export interface ExecutionProgress {
  /** Begun, the one that is under way included. */
  readonly attempts: number;
  /** Of them, those that may have done something without our knowing. */
  readonly ambiguousAttempts: number;
  /** Whether one may be running: after a crash it is one more that is ambiguous. */
  readonly isUnderWay: boolean;
  /** As of the last attempt. */
  readonly isRepeatable: boolean;
  readonly updatedWallMs: number;
  /** When the next attempt may begin; absent: at once. */
  readonly nextWallMs?: number | undefined;
  /** While attempts fail before anything is done; absent after any other end of one. */
  readonly held?: StoredHold | undefined;
}

/** What keeps an execution from being done, for no fault of its own. */
export type StoredHold = Pick<ExecutionHold, "reason" | "code" | "message" | "sinceWallMs">;

/** What was given. */
export interface GivenInput {
  readonly input: JsonObject;
  readonly config: JsonObject;
  /** Pointers of the texts in which secrets are filled in. */
  readonly secrets: readonly string[];
}

/** How it ended. */
export interface ExecutionEnd {
  readonly status: Exclude<ExecutionStatus, "pending">;
  readonly output: JsonObject | null;
  readonly error: ExecutionError | null;
  readonly wallMs: number;
  readonly retries: number;
}

const text = new TextEncoder();
const bytes = new TextDecoder();

/** Both records of a new one. */
export function executionInserts(
  facts: ExecutionFacts,
  progress: ExecutionProgress,
  given: Uint8Array,
): RecordChange[] {
  return [
    { kind: "insert", record: { ...executionRecord(facts, { status: "pending" }), payload: given } },
    { kind: "insert", record: openRecord(facts, progress) },
  ];
}

/** Overwrites how far a pending execution is; its facts stay as they are. */
export function progressPut(facts: ExecutionFacts, progress: ExecutionProgress): RecordChange {
  return { kind: "put", record: openRecord(facts, progress) };
}

/** It is final: what was given is replaced by what came of it. */
export function endChanges(facts: ExecutionFacts, end: ExecutionEnd): RecordChange[] {
  const { output, wallMs, ...rest } = end;
  const record = executionRecord(facts, { ...rest, updatedWallMs: wallMs });
  const payload = output === null ? {} : { payload: text.encode(JSON.stringify(output)) };
  return [
    { kind: "put", record: { ...record, ...payload } },
    { kind: "delete", collection: OPEN_EXECUTIONS, id: facts.id },
    { kind: "delete", collection: EXECUTION_NOTES, id: facts.id },
  ];
}

/** Removes an execution with its notes, whatever its state. */
export function executionDeletes(id: string): RecordChange[] {
  return [EXECUTIONS, OPEN_EXECUTIONS, EXECUTION_NOTES].map((collection) => ({
    kind: "delete",
    collection,
    id,
  }));
}

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

/** Without reading its output. */
export function recordToStatus(record: StoredRecord): Pick<ExecutionView, "status" | "updatedWallMs"> {
  const { status, updatedWallMs = record.createdWallMs } = JSON.parse(record.body) as StoredExecution;
  return { status, updatedWallMs };
}

/** Of `execution_open`. */
export function recordToOpen(record: StoredRecord): {
  readonly facts: ExecutionFacts;
  readonly progress: ExecutionProgress;
} {
  const { progress, ...facts } = JSON.parse(record.body) as StoredOpen; // written by this file
  const { keyId, member, destination, ...rest } = facts;
  const { id, project, createdWallMs } = record;
  return { facts: { ...rest, keyId, member, destination, id, project, createdWallMs }, progress };
}

/** The payload of a pending one; undefined when it has gone. */
export function recordToGiven({ payload }: StoredRecord): GivenInput | undefined {
  return payload === undefined ? undefined : (JSON.parse(bytes.decode(payload)) as GivenInput);
}

interface StoredExecution {
  readonly satellite: SatelliteReference;
  readonly sla: string;
  readonly deadlineWallMs: number;
  readonly member?: Member;
  readonly status: ExecutionStatus;
  readonly updatedWallMs?: number;
  readonly error?: ExecutionError | null;
  readonly retries?: number;
}

type StoredOpen = Omit<
  ExecutionFacts,
  "id" | "project" | "createdWallMs" | "keyId" | "member" | "destination"
> &
  Partial<Pick<ExecutionFacts, "keyId" | "member" | "destination">> & {
    readonly progress: ExecutionProgress;
  };

function executionRecord(
  { id, project, createdWallMs, satellite, sla, deadlineWallMs, member }: ExecutionFacts,
  rest: Pick<StoredExecution, "status" | "updatedWallMs" | "error" | "retries">,
): StoredRecord {
  const body: StoredExecution = {
    satellite,
    sla,
    deadlineWallMs,
    ...(member === undefined ? {} : { member }),
    ...rest,
  };
  const parent = listedUnder(project, satellite);
  return { collection: EXECUTIONS, id, project, parent, createdWallMs, body: JSON.stringify(body) };
}

function openRecord(
  { id, project, createdWallMs, ...rest }: ExecutionFacts,
  progress: ExecutionProgress,
): StoredRecord {
  const body = JSON.stringify({ ...rest, progress });
  return { collection: OPEN_EXECUTIONS, id, project, parent: "", createdWallMs, body };
}
