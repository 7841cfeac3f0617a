/**
 * Tasks and objects as the interface shows them (2.2, 2.3), and their counts.
 *
 *   task:   submitted -> completed (every object final), or failed (no object could be made)
 *   object: submitted -> completed | failed | expired | cancelled
 */
import type { FailureCode } from "../errors.ts";
import type { ItemFacts, ItemUsage } from "./item.ts";
import type { Failure, Output } from "./outcome.ts";

/** The state of an item; all but `submitted` are final. */
export type ObjectStatus = "submitted" | "completed" | "failed" | "expired" | "cancelled";

/** Finer progress of a submitted object. */
export type ObjectPhase = "queued" | "running" | "retrying";

/** Why an item waits for a reason that does not concern the item itself. */
export interface ObjectHold {
  /** Such as `outage`, `quota`, `cap_reached` (docs/guide/holds.md). */
  readonly reason: string;
  /** ISO 8601. */
  readonly since: string;
  /** ISO 8601; null where only the operator or caller can change it. */
  readonly next_try: string | null;
  readonly provider?: string;
  readonly model?: string;
  /** Of the last failure, as in the error of an item that it ends. */
  readonly code?: FailureCode;
  readonly provider_status?: number;
}

/** Why the last request of an item failed that will be requested again. */
export interface LastError {
  readonly code: FailureCode;
  /** The HTTP status, where it is known. */
  readonly provider_status?: number;
}

/** What an object has in every state, with what is known of its answer once it is final. */
interface ObjectFacts extends Omit<ItemFacts, "usage"> {
  readonly object_id: string;
  /** `input_tokens` and `price_factor` from the start. */
  readonly usage: Partial<ItemUsage> & { readonly input_tokens: number; readonly price_factor: number };
}

/** An item inside a task (interface 2.3): `status` says what it holds. */
export type TaskObject = ObjectFacts &
  (
    | {
        readonly status: "submitted";
        readonly phase?: ObjectPhase;
        /** While something holds it. */
        readonly held?: ObjectHold;
        /** While it is retrying. */
        readonly last_error?: LastError;
        readonly output?: never;
        readonly error: null;
      }
    | {
        readonly status: "completed";
        readonly output: Output;
        readonly error: null;
        readonly phase?: never;
        readonly held?: never;
      }
    | {
        readonly status: "failed" | "expired" | "cancelled";
        readonly output?: never;
        readonly error: Failure;
        readonly phase?: never;
        readonly held?: never;
      }
  );

/** A task (interface 2.2). */
export interface Task {
  readonly status: "submitted" | "completed" | "failed";
  readonly task_id: string;
  readonly total_items: number;
  readonly counts: TaskCounts;
  readonly objects: readonly TaskObject[];
}

/** Objects by status; they always sum to the items accepted so far. */
export interface TaskCounts {
  readonly submitted: number;
  readonly completed: number;
  readonly failed: number;
  readonly expired: number;
  readonly cancelled: number;
}
