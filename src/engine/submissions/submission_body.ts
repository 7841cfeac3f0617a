/**
 * What the engine stores of a submitted list, besides the runs of its parts.
 */

import type { AnswerCacheTerms } from "../config/cache_terms.ts";
import type { StoredSchema } from "./list_schema.ts";

/** JSON in `StoredTask.body`. */
export interface SubmissionBody extends StoredSchema {
  readonly kind: "submission";
  /** One for each different sla; null: at once. */
  readonly parts: readonly { readonly sla: number | null; readonly items: number }[];
  /** Part of each item; absent when there is one part. */
  readonly partOf?: readonly number[];
  /** Of its items, as `checksumOf` says; absent for a list without a name of its caller. */
  readonly checksum?: string;
  /** Days after its end until it is removed by itself; absent: never. */
  readonly retentionDays?: number;
  readonly isDone: boolean;
  readonly cache?: AnswerCacheTerms | undefined;
  readonly coalesce?: boolean | undefined;
}

/** Undefined when the body is that of another task. */
export function submissionIn(body: string | undefined): SubmissionBody | undefined {
  if (body === undefined) return undefined;
  const value = JSON.parse(body) as SubmissionBody | { readonly kind?: undefined }; // written by this engine
  return value.kind === "submission" ? value : undefined;
}

/** The `id` option of a part's run. */
export function partRunId(taskId: string, part: number): string {
  return `${taskId}/${part}`;
}

/** The name under which the task of a part's run is stored. */
export function partName(taskId: string, part: number): string {
  return `id:${partRunId(taskId, part)}`;
}
