/**
 * What is stored of runs: the head of each, its declaration and input, and the states of its members.
 *
 *   cluster          head: state in the body; name and error, which are users' texts, in the payload
 *   cluster_source   declaration and input, in the payload
 *   cluster_open     one for each run that is not final, and nothing else, so that a start reads only those
 *   cluster_member   one for each member that is final, or whose fan-out has begun; a member without one is waiting, or its execution
 *                    is found by its derived id
 *
 * Outputs are those of executions and are not stored again.
 */

import type { ExecutionCaller, ExecutionError, ExecutionStatus } from "../../satellites/sdk/execution.ts";
import type { RecordChange, StoredRecord } from "../../store/records.ts";
import { derivedId } from "../../work/derived_id.ts";
import type { Json, JsonObject } from "../../work/json.ts";
import type { MemberStatus } from "../cluster.ts";

export const CLUSTERS = "cluster";
export const SOURCES = "cluster_source";
export const OPEN = "cluster_open";
export const MEMBERS = "cluster_member";

/** The head of a run. */
export interface StoredCluster {
  readonly id: string;
  readonly project: string;
  readonly createdWallMs: number;
  readonly updatedWallMs: number;
  readonly deadlineWallMs: number;
  readonly sla: string;
  readonly status: ExecutionStatus;
  readonly caller: ExecutionCaller;
  /** When a caller cancelled it. */
  readonly cancelledWallMs?: number;
  readonly name: string | null;
  readonly error: ExecutionError | null;
}

/** The state of a fan-out. */
export interface StoredFanOut {
  readonly total: number;
  /** All elements below have ended, and `counts` and `retries` are only theirs. */
  readonly endedBelow: number;
  readonly counts: Readonly<Record<ExecutionStatus, number>>;
  readonly retries: number;
}

/** The state of a member, as stored. */
export interface MemberState {
  readonly status: MemberStatus;
  /** It has ended, and what needs it cannot go on. */
  readonly isFailure: boolean;
  /** The end of its cluster ended it. */
  readonly isCutOff?: true;
  readonly hasExecution: boolean;
  readonly startedWallMs?: number;
  readonly finishedWallMs?: number;
  readonly retries: number;
  readonly fanOut?: StoredFanOut;
  readonly error: ExecutionError | null;
}

export const WAITING: MemberState = {
  status: "waiting",
  isFailure: false,
  hasExecution: false,
  retries: 0,
  error: null,
};

/** What a run was made of. */
export interface DeclarationSource {
  readonly declaration: Json;
  readonly input: JsonObject;
}

/** The execution of a member, the same however often it is submitted. */
export function executionIdOf(
  cluster: Pick<StoredCluster, "id" | "project">,
  identifier: string,
  index?: number,
): string {
  return derivedId(
    `${cluster.project}/${cluster.id}`,
    index === undefined ? identifier : `${identifier}[${index}]`,
  );
}

/** Names and errors, which may be texts of users, are in the payload. */
export function clusterToRecord(cluster: StoredCluster): StoredRecord {
  const { id, project, createdWallMs, name, error, ...body } = cluster;
  return {
    collection: CLUSTERS,
    id,
    project,
    parent: "",
    createdWallMs,
    body: JSON.stringify(body),
    payload: encode({ name, error }),
  };
}

/** What `clusterToRecord` made. */
export function recordToCluster({ id, project, createdWallMs, body, payload }: StoredRecord): StoredCluster {
  const stored = JSON.parse(body) as Omit<StoredCluster, "name" | "error">; // perigee's own, under a checksum
  const texts = decode<Pick<StoredCluster, "name" | "error">>(payload) ?? { name: null, error: null };
  return { ...stored, ...texts, id, project, createdWallMs };
}

/** All that a new run consists of. */
export function newClusterChanges(cluster: StoredCluster, source: DeclarationSource): RecordChange[] {
  const { id, project, createdWallMs } = cluster;
  const beside = { id, project, parent: "", createdWallMs, body: "{}" };
  return [
    { kind: "insert", record: clusterToRecord(cluster) },
    { kind: "insert", record: { ...beside, collection: SOURCES, payload: encode(source) } },
    { kind: "insert", record: { ...beside, collection: OPEN } },
  ];
}

/** Undefined for a record without payload: one that was erased. */
export function recordToSource({ payload }: StoredRecord): DeclarationSource | undefined {
  return decode<DeclarationSource>(payload);
}

/** One record for each member; its error is in the payload. */
export function memberToRecord(
  { id, project, createdWallMs }: StoredCluster,
  identifier: string,
  { error, ...state }: MemberState,
): StoredRecord {
  return {
    collection: MEMBERS,
    id: `${id}.${identifier}`,
    project,
    parent: id,
    createdWallMs,
    body: JSON.stringify(state),
    ...(error === null ? {} : { payload: encode({ error }) }),
  };
}

/** The identifier, and its state. */
export function recordToMember({ id, body, payload }: StoredRecord): readonly [string, MemberState] {
  const state = JSON.parse(body) as Omit<MemberState, "error">; // perigee's own, under a checksum
  const { error } = decode<Pick<MemberState, "error">>(payload) ?? { error: null };
  return [id.slice(id.indexOf(".") + 1), { ...state, error }];
}

/** Everything of a run. */
export function removalChanges(id: string): RecordChange[] {
  return [
    { kind: "deleteOf", collection: MEMBERS, parent: id },
    { kind: "delete", collection: SOURCES, id },
    { kind: "delete", collection: OPEN, id },
    { kind: "delete", collection: CLUSTERS, id },
  ];
}

function encode(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

function decode<T>(payload: Uint8Array | undefined): T | undefined {
  return payload === undefined ? undefined : (JSON.parse(new TextDecoder().decode(payload)) as T); // perigee's own, under a checksum
}
