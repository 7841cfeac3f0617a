/**
 * What the engine stores of a task besides its journal: its terms, frozen when it was accepted, and how it ended.
 */
import type { InputIdentity } from "./input.ts";
import type { Summary } from "./progress.ts";

/** JSON in `StoredTask.body`. */
export interface TaskBody {
  readonly version: 1;
  /** Absent for streams. */
  readonly input?: InputIdentity;
  /** Of the bytes read when keys were checked; absent for streams. */
  readonly inputChecksum?: string;
  /** Of a stream's lines, once the run has finished: its copy is gone then. */
  readonly streamChecksum?: string;
  /** Lines of the input, blank ones included; absent for streams until they were read to their end. */
  readonly lines?: number;
  readonly out: string;
  readonly isOrdered: boolean;
  readonly slaMinutes?: number;
  readonly acceptedWallMs: number;
  /** Tokens that the price factor counts as this task's volume: a quarter of the input's bytes. */
  readonly volumeTokens: number;
  readonly model?: string;
  /** What was not sent ends as cancelled, in whatever process; a stream's copy is its whole input then. */
  readonly isCancelled?: true;
  readonly status: "open" | "completed" | "failed";
  /** Size of the finished output. */
  readonly outBytes?: number;
  readonly summary?: Summary;
}

export function encodeBody(body: TaskBody): string {
  return JSON.stringify(body);
}

/** The store hands back what `encodeBody` made; its own checks guard the bytes. */
export function decodeBody(text: string): TaskBody {
  return JSON.parse(text) as TaskBody;
}
