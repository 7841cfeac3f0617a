/**
 * Runs of clusters as projects see them.
 *
 *   (none) -> pending -> completed     every member is completed, or skipped by its own `if`
 *                     -> failed        a member failed or expired
 *                     -> cancelled     asked for by the project
 *                     -> expired       its sla was over first
 */

import type { ExecutionCaller, ExecutionError, ExecutionStatus } from "../satellites/sdk/execution.ts";
import type { Page, PageQuery } from "../tasks/shapes/task_view.ts";
import type { Json, JsonObject } from "../work/json.ts";

/** `waiting`: what it refers to is not there yet. `skipped`: its `if` said no, or what it needs has failed. */
export type MemberStatus = "waiting" | ExecutionStatus | "skipped";

/** A member of a run as its project sees it. Times are Unix time in milliseconds. */
export interface MemberView {
  readonly identifier: string;
  /** Display name. */
  readonly name: string;
  /** `satellite/<namespace>/<name>` */
  readonly uses: string;
  /** Identifiers it waits for. */
  readonly needs: readonly string[];
  readonly status: MemberStatus;
  readonly startedWallMs?: number;
  readonly finishedWallMs?: number;
  readonly retries: number;
  /** Of a member without `each`. */
  readonly executionId?: string;
  /** Of one with `each`: the states of its elements. */
  readonly counts?: Readonly<Record<ExecutionStatus, number>>;
  /**
   * Of one with `each` the list of outputs, null for an element without an output. Null as well where it is too large to be shown (4 MiB
   * in all, 100 elements): its executions have it then. Always null in the results of `submit` and `onChanged`.
   */
  readonly output: Json;
  readonly error: ExecutionError | null;
}

/** A run as its project sees it. Times are Unix time in milliseconds. */
export interface ClusterView {
  /** UUID. */
  readonly id: string;
  readonly project: string;
  /** As declared. */
  readonly name?: string;
  readonly status: ExecutionStatus;
  readonly sla: string;
  readonly createdWallMs: number;
  readonly updatedWallMs: number;
  readonly deadlineWallMs: number;
  /** In the order of the declaration. Empty in lists. */
  readonly members: readonly MemberView[];
  readonly error: ExecutionError | null;
}

/** Where a declaration is wrong, or will probably not do what was meant. */
export interface ClusterIssue {
  /** From 1; absent for declarations that were not text. */
  readonly line?: number;
  readonly column?: number;
  /** Dotted, such as `cluster.satellites[2].input.files`. */
  readonly path: string;
  readonly message: string;
  /** Absent: an error. A declaration with only warnings can be run. */
  readonly severity?: "warning";
}

export interface ClusterRequest {
  /** UUID chosen by the caller, so that a repeated call is recognised; default: a fresh one. Throws `conflict` when taken. */
  readonly id?: string;
  /** YAML (or JSON, which is YAML), at most 256 KiB; or what it would parse to. */
  readonly declaration: string | JsonObject;
  /** For `${{ input.path }}`. */
  readonly input?: JsonObject;
}

/** As `Executions`: any time, concurrently, each project its own. */
export interface Clusters {
  /**
   * What is wrong with a declaration, all at once, and what is a warning; empty when nothing is. Makes nothing. Without an input, references to it are
   * taken on trust.
   */
  check(
    caller: ExecutionCaller,
    declaration: string | JsonObject,
    input?: JsonObject,
  ): Promise<readonly ClusterIssue[]>;
  /** Resolves when it is durable. Throws `invalid_request` with `details.issues` (`ClusterIssue[]`), `too_large`, `too_many`, `conflict`. */
  submit(caller: ExecutionCaller, request: ClusterRequest): Promise<ClusterView>;
  cluster(project: string, id: string): Promise<ClusterView>;
  /** Newest first. */
  list(project: string, query: PageQuery): Promise<Page<ClusterView>>;
  /** Idempotent; cancels what its members have pending. */
  cancel(project: string, id: string): Promise<ClusterView>;
  /** Calls back whenever something shown of a run has changed. Returns how to stop. */
  onChanged(listener: (cluster: ClusterView) => void): () => void;
  close(): Promise<void>;
}
