/**
 * A posted task as its row in the work log has it: its contents and promises. The log has the state of its items.
 */
import type { EndedStatus } from "../../log/records.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { ModelSales } from "../../price/sales.ts";
import type { LoggedTask } from "../../store/log_rows.ts";
import { stemOf } from "../../work/object_id.ts";

/** Items without their own answer that had ended when others of their task were opened again, by their numbers from 0. */
export interface RestItems {
  readonly cancelled: readonly number[];
  readonly expired: readonly number[];
  /** When the last of them ended, Unix time; absent in rows of an earlier version. */
  readonly endedWallMs?: number;
}

/** JSON of the row. */
export interface PostedBody {
  readonly id: string;
  readonly totalItems: number;
  readonly slaMinutes: number | null;
  readonly hasOutputFile: boolean;
  readonly note?: string | undefined;
  /** Days after its end until it is removed by itself; absent: never, or by what owns it. */
  readonly retentionDays?: number | undefined;
  /** How old a cached answer to its items may be, such as `1h`; absent: they are not answered from the cache. */
  readonly cacheTtl?: string | undefined;
  /** Nobody but its caller, who waits for it, will read its answer: a later process cancels it. */
  readonly endsWithCaller?: true | undefined;
  /** For each item, as counted at acceptance. */
  readonly inputTokens: readonly number[];
  /** Its models, each with its items and counted tokens. */
  readonly works: readonly (readonly [model: string, items: number, inputTokens: number])[];
  /** For each item, or one number for all. */
  readonly factors: number | readonly number[];
  /** Estimated cost of its items at admission, in USD; after a retry, of the items that were open then (`estimatedItems`). */
  readonly estimatedUsd?: number | undefined;
  readonly estimatedItems?: number;
  /** What an item gets back of its charge if it misses its deadline; absent: nothing. */
  readonly refundShare?: number | undefined;
  readonly isCancelled?: true;
  readonly cancelledWallMs?: number;
  /** How often failed items ran again, and when the window of the last retry began. */
  readonly retries?: number;
  readonly sinceWallMs?: number;
  readonly rest?: RestItems;
  /** The part of its usage that was noted before its last retry. */
  readonly noted?: { readonly items: number; readonly inputTokens: number; readonly outputTokens: number } & {
    readonly [money in "listUsd" | "usd" | "billedUsd" | "ambiguousUsd"]: number;
  } & {
    /** Absent in rows of an earlier version. */
    readonly models?: ModelSales;
    readonly refundUsd?: number;
  };
}

/** A posted task. */
export interface PostedRecord extends PostedBody {
  /** Its number in the work log. */
  readonly number: number;
  readonly project: string;
  readonly createdWallMs: number;
}

/** The row's id, by which a task and its objects are found. */
export function rowIdOf(id: string): string {
  return stemOf(id);
}

/** The posted task of a row. */
export function rowToPosted(log: Pick<WorkLog, "text">, row: LoggedTask): PostedRecord {
  const { number, createdWallMs } = row;
  const body = JSON.parse(row.body) as PostedBody; // written by `bodyOf`
  return { ...body, number, createdWallMs, project: log.text(row.project) ?? "" };
}

/** The body of a row. Hot: lists its fields, because V8 takes 2 us to leave three out of an object. */
export function bodyOf(task: PostedBody): string {
  return JSON.stringify({
    id: task.id,
    totalItems: task.totalItems,
    slaMinutes: task.slaMinutes,
    hasOutputFile: task.hasOutputFile,
    note: task.note,
    retentionDays: task.retentionDays,
    cacheTtl: task.cacheTtl,
    endsWithCaller: task.endsWithCaller,
    inputTokens: task.inputTokens,
    works: task.works,
    factors: task.factors,
    estimatedUsd: task.estimatedUsd,
    estimatedItems: task.estimatedItems,
    refundShare: task.refundShare,
    isCancelled: task.isCancelled,
    cancelledWallMs: task.cancelledWallMs,
    retries: task.retries,
    sinceWallMs: task.sinceWallMs,
    rest: task.rest,
    noted: task.noted,
  } satisfies { [part in keyof PostedBody]-?: PostedBody[part] | undefined });
}

/** When its last window ends, Unix time; undefined without an sla. */
export function deadlineWallMsOf({
  slaMinutes,
  sinceWallMs,
  createdWallMs,
}: Pick<PostedRecord, "slaMinutes" | "sinceWallMs" | "createdWallMs">): number | undefined {
  return slaMinutes === null ? undefined : (sinceWallMs ?? createdWallMs) + slaMinutes * 60_000;
}

/** When an item without its own answer ended, Unix time. */
export function restEndedWallMs(task: PostedRecord, item: number, status: EndedStatus): number {
  const { rest, cancelledWallMs, createdWallMs } = task;
  if (rest?.cancelled.includes(item) === true || rest?.expired.includes(item) === true)
    return rest.endedWallMs ?? createdWallMs;
  return (status === "expired" ? deadlineWallMsOf(task) : cancelledWallMs) ?? createdWallMs;
}
