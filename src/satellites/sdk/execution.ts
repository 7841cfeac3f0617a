/**
 * Executions as projects see them (interface 2.7, 2.8, 3.2).
 *
 *   (none) -> pending -> completed     `run` returned an output
 *                     -> failed        an attempt failed for good, or too many of which nothing is known
 *                     -> cancelled     asked for by the project, or by its cluster
 *                     -> expired       its sla was over first
 */
import type { JobError } from "../../jobs/job.ts";
import type { Page, PageQuery } from "../../tasks/shapes/task_view.ts";
import type { JsonObject } from "../../work/json.ts";
import type { Member } from "./member.ts";
import type { SatelliteReference } from "./reference.ts";

/** As drawn above; all but `pending` are final. */
export type ExecutionStatus = "pending" | "completed" | "failed" | "cancelled" | "expired";

/**
 * Why an execution has no output, without the values of secrets. `code`: the satellite's own, or `ambiguous`, `expired`, `cancelled`,
 * `invalid_input`, `forbidden`, `secret_missing`, `output_too_large`, `satellite_error`.
 */
export type ExecutionError = JobError;

/** Why an execution waits for its next attempt: nothing was done by the one before. Times are Unix time in milliseconds. */
export interface ExecutionHold {
  readonly reason: "outage" | "rate_limited" | "overloaded";
  /** Of the last attempt, as its `ExecutionError` would have it. */
  readonly code: string;
  readonly message: string;
  readonly sinceWallMs: number;
  readonly nextTryWallMs: number;
}

/** An execution as its project sees it. Times are Unix time in milliseconds. */
export interface ExecutionView {
  /** UUID. */
  readonly id: string;
  /** Whose it is; the satellite's namespace may be another's. */
  readonly project: string;
  readonly satellite: SatelliteReference;
  /** As the caller set it. */
  readonly sla: string;
  readonly status: ExecutionStatus;
  /** Of a pending one. */
  readonly phase?: "queued" | "running" | "retrying";
  readonly progress?: { readonly done: number; readonly total?: number };
  /** Of one that is retrying after an attempt that did nothing. */
  readonly held?: ExecutionHold;
  readonly createdWallMs: number;
  readonly updatedWallMs: number;
  readonly deadlineWallMs: number;
  readonly output: JsonObject | null;
  readonly error: ExecutionError | null;
  /** Attempts - 1, at least 0. */
  readonly retries: number;
  /** When a cluster submitted it. */
  readonly member?: Member;
}

/** An execution to make. */
export interface ExecutionRequest {
  /** UUID chosen by the caller, so that a repeated call is recognised; default: a fresh one. Throws `conflict` when taken. */
  readonly id?: string;
  readonly satellite: SatelliteReference;
  readonly input: JsonObject;
  readonly config: JsonObject;
  /** A duration (`work/sla.ts`), at most 30 days. */
  readonly sla: string;
  /** Latest deadline for any sla: that of a cluster. */
  readonly deadlineWallMs?: number;
  /**
   * JSON pointers (RFC 6901) below `/input` and `/config` of the texts in which `secret://name` is replaced by a secret.
   * Default: all texts; a cluster passes only those of its declaration, so that an output of a member cannot name a secret.
   * Of these, the texts of `config` and of input fields that the satellite marks are expanded; others are plain text.
   */
  readonly secretPaths?: readonly string[];
  readonly member?: Member;
  /** When another execution calls it, and how many are above it. */
  readonly parent?: { readonly executionId: string; readonly depth: number };
}

/** Who submits: the bare facts of a key. */
export interface ExecutionCaller {
  readonly project: string;
  /** Undefined for the process itself, whose calls need no flag. */
  readonly keyId: string | undefined;
  readonly isBeta: boolean;
}

/**
 * Every method may be called at any time and concurrently. A project sees only its own executions: those of others, and
 * ids that do not exist, are `not_found` alike.
 */
export interface Executions {
  /**
   * Resolves when it is durable. Throws `not_found` for a satellite that does not exist or is not for this caller, `invalid_request`
   * (`details.issues`: `{path, message}[]`) for an invalid input, config or sla, `too_large` above 1 MiB,
   * `too_many` when too many are pending.
   */
  submit(caller: ExecutionCaller, request: ExecutionRequest): Promise<ExecutionView>;
  execution(project: string, id: string): Promise<ExecutionView>;
  /** Newest first; pages end early where outputs are large, unless they are left out (`isBrief`: null for all). */
  list(
    project: string,
    query: PageQuery & { readonly satellite?: SatelliteReference; readonly isBrief?: boolean },
  ): Promise<Page<ExecutionView>>;
  /** Idempotent, also once it is final; resolves when it is durable. What an attempt did already stays done. */
  cancel(project: string, id: string): Promise<ExecutionView>;
  /** Calls back when an execution is final, once per process. Returns how to stop. */
  onFinished(listener: (execution: ExecutionView) => void): () => void;
  /** Of all projects together, for the operator's page. */
  counts(): { readonly queued: number; readonly running: number };
  /** Starts nothing more, aborts what runs (it continues after a restart), and resolves when that has ended. */
  close(): Promise<void>;
}
