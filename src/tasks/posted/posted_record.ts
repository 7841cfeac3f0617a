/**
 * A posted task as its row in the work log has it: what it is and was promised. How its items stand is in the log itself.
 */
import type { EndedStatus } from "../../log/records.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { LoggedTask } from "../../store/log_rows.ts";
import { stemOf } from "../../work/object_id.ts";

/** Items that had ended without an answer of their own when others of their task were opened again, by their numbers from 0. */
export interface RestItems {
  readonly cancelled: readonly number[];
  readonly expired: readonly number[];
  /** When the last of them ended, Unix time; absent where an earlier version wrote it. */
  readonly endedWallMs?: number;
}

/** JSON of the row. */
export interface PostedBody {
  readonly id: string;
  readonly totalItems: number;
  readonly slaMinutes: number | null;
  readonly hasOutputFile: boolean;
  readonly note?: string | undefined;
  /** Of each item, as counted when it was accepted. */
  readonly inputTokens: readonly number[];
  /** Its models, with how many items and counted tokens each has. */
  readonly works: readonly (readonly [model: string, items: number, inputTokens: number])[];
  /** Of each item, or of all when it is one number. */
  readonly factors: number | readonly number[];
  /** What its items were estimated to cost when it was admitted, in USD; after a retry, so many of them that were open then. */
  readonly estimatedUsd?: number | undefined;
  readonly estimatedItems?: number;
  readonly isCancelled?: true;
  readonly cancelledWallMs?: number;
  /** How often failed items were run again, and since when the window of these counts. */
  readonly retries?: number;
  readonly sinceWallMs?: number;
  readonly rest?: RestItems;
  /** What of its usage was noted before its last retry. */
  readonly noted?: { readonly items: number; readonly inputTokens: number; readonly outputTokens: number } & {
    readonly [money in "listUsd" | "usd" | "billedUsd" | "ambiguousUsd"]: number;
  };
}

/** A posted task. */
export interface PostedRecord extends PostedBody {
  /** In the work log. */
  readonly number: number;
  readonly project: string;
  readonly createdWallMs: number;
}

/** The row's id: what a task and its objects are found by. */
export function rowIdOf(id: string): string {
  return stemOf(id);
}

/** What a row says. */
export function rowToPosted(log: Pick<WorkLog, "text">, row: LoggedTask): PostedRecord {
  const { number, createdWallMs } = row;
  const body = JSON.parse(row.body) as PostedBody; // written as `bodyOf` says
  return { ...body, number, createdWallMs, project: log.text(row.project) ?? "" };
}

/** The body of a row. Hot: its parts are named, because V8 takes 2 us to leave three out of an object. */
export function bodyOf(task: PostedBody): string {
  return JSON.stringify({
    id: task.id,
    totalItems: task.totalItems,
    slaMinutes: task.slaMinutes,
    hasOutputFile: task.hasOutputFile,
    note: task.note,
    inputTokens: task.inputTokens,
    works: task.works,
    factors: task.factors,
    estimatedUsd: task.estimatedUsd,
    estimatedItems: task.estimatedItems,
    isCancelled: task.isCancelled,
    cancelledWallMs: task.cancelledWallMs,
    retries: task.retries,
    sinceWallMs: task.sinceWallMs,
    rest: task.rest,
    noted: task.noted,
  } satisfies { [part in keyof PostedBody]-?: PostedBody[part] | undefined });
}

/** When the last of its windows is over, Unix time; undefined without an sla. */
export function deadlineWallMsOf({
  slaMinutes,
  sinceWallMs,
  createdWallMs,
}: Pick<PostedRecord, "slaMinutes" | "sinceWallMs" | "createdWallMs">): number | undefined {
  return slaMinutes === null ? undefined : (sinceWallMs ?? createdWallMs) + slaMinutes * 60_000;
}

/** When an item ended that has no answer of its own, Unix time. */
export function restEndedWallMs(task: PostedRecord, item: number, status: EndedStatus): number {
  const { rest, cancelledWallMs, createdWallMs } = task;
  if (rest?.cancelled.includes(item) === true || rest?.expired.includes(item) === true)
    return rest.endedWallMs ?? createdWallMs;
  return (status === "expired" ? deadlineWallMsOf(task) : cancelledWallMs) ?? createdWallMs;
}
