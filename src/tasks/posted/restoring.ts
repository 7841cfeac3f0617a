/**
 * Restores the open posted tasks of earlier processes at the start: counts what they took, and holds space and money for the rest.
 */
import { type PostedRecord, rowToPosted } from "../../engine/posted/posted_record.ts";
import { hasCode } from "../../errors.ts";
import type { OpenTask } from "../../log/open_columns.ts";
import { WORK_KINDS } from "../../log/work_kinds.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { Admission } from "../usage/admission.ts";
import type { TaskBacklog } from "../usage/backlog.ts";
import type { Spending } from "../usage/spending.ts";
import { RestoredTasks } from "./restored_tasks.ts";
import { readOpenUsed } from "./task_usage.ts";

/** Rows of open tasks read at a time. */
const PAGE = 2_000;

export interface RestoringOptions {
  readonly log: WorkLog;
  readonly admission: Admission;
  readonly spending: Spending;
  readonly backlog: TaskBacklog;
  readonly onFault: (error: unknown) => void;
  readonly isClosed: () => boolean;
}

/** `noted`: the usage of open tasks that was noted before, by their numbers. */
export async function restoreTasks(options: RestoringOptions): Promise<{
  readonly restored: RestoredTasks;
  readonly noted: ReadonlyMap<number, NonNullable<PostedRecord["noted"]>>;
}> {
  const { log, admission, spending, backlog, onFault, isClosed } = options;
  const open = [...log.openTasks()].filter(({ kind }) => kind === WORK_KINDS.posted);
  const nameOf = (project: number): string => log.text(project) ?? "";
  const restored = new RestoredTasks(
    open,
    (project) => backlog.share(nameOf(project)),
    (project) => admission.again(nameOf(project), 0),
  );
  const noted = new Map<number, NonNullable<PostedRecord["noted"]>>();
  for (const { number, items } of open) {
    const isUntried = items === 1 && log.triedItems(number).size === 0; // a task of one item is final when the item ends
    const used = isUntried ? undefined : await readOpenUsed(log, number);
    if (used === undefined) continue;
    spending.open.set(number, used.task.project, used.usage);
    if (used.task.noted !== undefined) noted.set(number, used.task.noted);
  }
  const projects = new Set(open.map(({ project }) => project));
  const capped = new Set([...projects].filter((one) => spending.isCapped(nameOf(one))));
  const isCapped = ({ project }: OpenTask): boolean => capped.has(project);
  await holdAgain(options, restored, open.filter(isCapped));
  const others = open.filter((task) => !isCapped(task)); // their holds are only shown
  holdAgain(options, restored, others).catch((error: unknown) => {
    if (!isClosed() && !hasCode(error, "closed")) onFault(error);
  });
  return { restored, noted };
}

/** Holds money for the open items of tasks again, in proportion to their admission. */
async function holdAgain(
  { log, isClosed }: RestoringOptions,
  restored: RestoredTasks,
  open: readonly { readonly number: number }[],
): Promise<void> {
  for (let start = 0; start < open.length && !isClosed(); start += PAGE) {
    const numbers = open.slice(start, start + PAGE).map(({ number }) => number);
    for (const row of await log.rows.loggedTasks({ numbers, limit: PAGE })) {
      const { estimatedUsd = 0, totalItems, estimatedItems = totalItems } = rowToPosted(log, row);
      if (estimatedUsd > 0) restored.keep(row.number, estimatedUsd / estimatedItems);
    }
  }
}
