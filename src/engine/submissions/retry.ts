/**
 * A run called again only by its id: its source and terms as its last call left them.
 */
import { type FailureCode, PerigeeError } from "../../errors.ts";
import type { Store } from "../../store/store.ts";
import type { CacheOptions } from "../config/cache_terms.ts";
import { decodeBody } from "../files/task_body.ts";
import type { EngineRunOptions } from "../runs/run_open.ts";
import type { SchemaOptions } from "../schemas/run_schema.ts";
import type { Submissions, SubmitOptions } from "./submissions.ts";

/** Options of `engine.retry`. */
export interface RetryOptions
  extends Pick<EngineRunOptions, "maxCostUsd" | "signal" | "onProgress" | "progressEveryMs"> {
  /** Lines that ended with one of these are run again, also `cancelled` ones and where that is not marked retryable. */
  readonly codes?: readonly FailureCode[];
}

/** Options of `engine.retryTask`. */
export interface RetryTaskOptions
  extends Omit<SubmitOptions, "id" | "retentionDays" | "onChunk" | keyof SchemaOptions | keyof CacheOptions> {
  /** Items that ended with one of these are run again, also `cancelled` ones and where that is not marked retryable. */
  readonly codes?: readonly FailureCode[];
}

/** Throws `not_found`, and `usage` for a source that is not kept. */
export async function retryOptions(
  store: Pick<Store, "task">,
  submissions: Pick<Submissions, "has">,
  taskId: string,
  { codes, ...options }: RetryOptions,
): Promise<EngineRunOptions & { readonly source: string }> {
  const task = await store.task(taskId);
  if (await submissions.has(taskId))
    throw new PerigeeError("usage", `task ${taskId} is a submitted list: run its items again with retryTask`);
  const kind = /^(id|out|in|once):/.exec(task?.name ?? "")?.[1];
  if (task === undefined || kind === undefined)
    throw new PerigeeError("not_found", `no run has the id ${JSON.stringify(taskId)}`);
  const { input, out, slaMinutes, model, isOrdered, format, isPiloted, call = {} } = decodeBody(task.body);
  if (input === undefined) {
    throw new PerigeeError(
      "usage",
      `the source of run ${taskId} was a stream, which is not kept: call run with it again and with retryFailed`,
    );
  }
  const { pilot, ...kept } = call;
  if (pilot !== undefined && isPiloted !== true)
    throw new PerigeeError(
      "usage",
      `the pilot of run ${taskId} was not accepted: call run with onPilot again, and with retryFailed`,
    );
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  return {
    ...kept,
    ...given,
    source: input.name,
    ...(kind === "id" ? { id: task.name.slice("id:".length) } : {}),
    ...(kind === "in" ? {} : { out }),
    ...(slaMinutes === undefined ? {} : { sla: slaMinutes }),
    ...(model === undefined ? {} : { model }),
    ordered: isOrdered,
    ...(format === undefined ? {} : { format }),
    retryFailed: codes ?? true,
  };
}
