/**
 * The tasks of a project in the order in which they were accepted, the newest first.
 *
 * Posted tasks are rows of the work log, in the order of their numbers. Large ones are records in the order in which they were stored,
 * and each names the number that it precedes (`beforeTask`). Both orders are those of the store's commits, so later tasks come before
 * all that a reader has seen.
 */

import { type PostedRecord, rowIdOf, rowToPosted } from "../engine/posted/posted_record.ts";
import { WORK_KINDS } from "../log/work_kinds.ts";
import type { WorkLog } from "../log/work_log.ts";
import type { RecordStore } from "../store/records.ts";
import { stemOf } from "../work/object_id.ts";
import { recordToTask, TASKS, type TaskRecord } from "./lots/task_record.ts";
import { isId, notFound } from "./shapes/ids.ts";
import type { Page, PageQuery, TaskView } from "./shapes/task_view.ts";

const ROWS_PAGE = 200;
/** Limits the pages of large tasks: never higher in an older record. */
const BEFORE_TASK = "beforeTask" satisfies keyof TaskRecord;

/** A posted or a large task. */
export type ListedTask = { readonly posted: PostedRecord } | { readonly large: TaskRecord };

export interface TaskListingOptions {
  readonly store: Pick<RecordStore, "record" | "records">;
  readonly log: WorkLog;
  /** Undefined for a task that was removed meanwhile. */
  readonly viewOf: (task: ListedTask) => Promise<TaskView | undefined>;
}

/** One for a store. */
export class TaskListing {
  readonly #options: TaskListingOptions;

  constructor(options: TaskListingOptions) {
    this.#options = options;
  }

  /** Throws `not_found` when `after` is not the id of a task. */
  async page(project: string, query: PageQuery): Promise<Page<TaskView>> {
    for (;;) {
      const page = await this.#page(project, query);
      if (page !== undefined) return page;
    }
  }

  /** Undefined if the task after which it was reading was removed. */
  async #page(project: string, { after, limit }: PageQuery): Promise<Page<TaskView> | undefined> {
    let last = after === undefined ? undefined : await this.#find(project, after);
    const items: TaskView[] = [];
    for (;;) {
      const wanted = limit + 1 - items.length;
      const listed = await this.#behind(project, last, wanted);
      if (listed === undefined) return undefined;
      for (const task of listed) {
        if (items.length === limit) return { items, hasMore: true };
        const view = await this.#options.viewOf(task);
        if (view !== undefined) items.push(view);
        last = task;
      }
      if (listed.length < wanted) return { items, hasMore: false };
    }
  }

  async #find(project: string, id: string): Promise<ListedTask> {
    const { log, store } = this.#options;
    const row = isId(id) ? await log.rows.loggedTask(rowIdOf(id)) : undefined;
    const posted = row?.kind === WORK_KINDS.posted ? rowToPosted(log, row) : undefined;
    if (posted?.id === id && posted.project === project) return { posted };
    const record = isId(id) ? await store.record(project, TASKS, stemOf(id)) : undefined;
    const large = record === undefined ? undefined : recordToTask(record);
    if (large?.id !== id) throw notFound("task", id);
    return { large };
  }

  async #behind(
    project: string,
    last: ListedTask | undefined,
    limit: number,
  ): Promise<readonly ListedTask[] | undefined> {
    // Reads both in one turn, so that they are of the same moment.
    const [rows, records] = await Promise.all([
      this.#posted(project, last, limit),
      this.#large(project, last, limit),
    ]);
    if (records === undefined) return undefined;
    const listed: ListedTask[] = [];
    for (let [row, record] = [0, 0]; listed.length < limit; ) {
      const [posted, large] = [rows[row], records[record]];
      if (large !== undefined && (posted === undefined || beforeTaskOf(large) > posted.number)) {
        listed.push({ large });
        record += 1;
      } else if (posted !== undefined) {
        listed.push({ posted });
        row += 1;
      } else break;
    }
    return listed;
  }

  async #posted(project: string, last: ListedTask | undefined, limit: number): Promise<PostedRecord[]> {
    const { log } = this.#options;
    const query = { project: log.number(project), kind: WORK_KINDS.posted, isNewestFirst: true };
    const found: PostedRecord[] = [];
    for (let after = last === undefined ? undefined : numberAt(last); found.length < limit; ) {
      const wanted = Math.min(ROWS_PAGE, limit - found.length);
      const rows = await log.rows.loggedTasks({ ...query, after, limit: wanted });
      for (const row of rows) found.push(rowToPosted(log, row));
      after = rows.at(-1)?.number;
      if (rows.length < wanted) break;
    }
    return found;
  }

  async #large(
    project: string,
    last: ListedTask | undefined,
    limit: number,
  ): Promise<readonly TaskRecord[] | undefined> {
    const { store } = this.#options;
    const after = last !== undefined && "large" in last ? stemOf(last.large.id) : undefined;
    const place =
      after !== undefined
        ? { after }
        : last === undefined
          ? {}
          : { atMost: { member: BEFORE_TASK, value: numberAt(last) } };
    const [mark, records] = await Promise.all([
      after === undefined ? undefined : store.record(project, TASKS, after),
      store.records(project, { collection: TASKS, isNewestFirst: true, ...place, limit }),
    ]);
    if (after !== undefined && mark === undefined) return undefined;
    return records.map(recordToTask);
  }
}

/** Posted tasks after it in the list have lower numbers. */
function numberAt(task: ListedTask): number {
  return "posted" in task ? task.posted.number : beforeTaskOf(task.large);
}

/** 0 for tasks of versions without posted tasks. */
function beforeTaskOf({ beforeTask = 0 }: TaskRecord): number {
  return beforeTask;
}
