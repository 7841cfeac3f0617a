/**
 * The jobs of one kind in the work log, where each is a task of one item.
 *
 *   accepted -> [intent -> attempt ended]* -> ended        its input stays until then, and so do notes
 *        \-> removed with its parent
 *
 *   row       body: its facts, and how far it is or how it ended; request: what it was accepted with; parent: what it is listed by
 *   answer    its output
 *
 * Calls that write are durable when they resolve, and those on one job take effect in their order. All reject with `disk_full` if the
 * disk is full; nothing of them has happened then.
 */
import { PerigeeError } from "../errors.ts";
import type { FieldsOf } from "../log/records.ts";
import type { WorkKind } from "../log/work_kinds.ts";
import type { WorkLog } from "../log/work_log.ts";
import type { LoggedTask } from "../store/log_rows.ts";
import { numberOfCode } from "../work/failure_numbers.ts";
import type { JsonObject } from "../work/json.ts";
import type { JobEnd, JobFacts, JobProgress } from "./job.ts";

const OPEN_PAGE = 1_000;
const LIST_PAGE = 32;
const LIST_BYTES_MAX = 8 << 20;
const ITEM = 0;
const NO_BYTES = new Uint8Array();
/** What providers bill; nothing of it is a job's. */
const UNPAID = {
  ...{ isEstimated: 0, price: 0, inputTokens: 0, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 0 },
  ...{ reasoningTokens: 0, listUsd: 0, usd: 0, billedUsd: 0, ambiguousUsd: 0 },
};
const UNLIMITED = { lane: 0, inputTokens: 0, outputTokens: 0, mostUsd: 0, offset: 0, lengthBytes: 0 };

/** A pending job, as the log knows it. */
export interface LoggedJob<F extends JobFacts> {
  /** Its number in the log. */
  readonly task: number;
  readonly facts: F;
  readonly progress: JobProgress;
}

/** A job, pending or not. */
export interface StoredJob<F extends JobFacts> {
  readonly facts: F;
  /** Undefined while it is pending. */
  readonly end: JobEnd | undefined;
}

/** Which jobs to list, the newest first. */
export interface JobQuery {
  /** Absent: all of the project. */
  readonly parent?: string | undefined;
  /** Begins after the job of this id. */
  readonly after?: string | undefined;
  readonly limit: number;
  /** Leaves outputs where they are. */
  readonly isBrief?: boolean | undefined;
}

/** What the body of a row says besides the facts. */
interface JobState {
  /** What of the progress the records of the log do not say. */
  readonly tried?: Pick<JobProgress, "isRepeatable" | "updatedWallMs" | "last">;
  readonly end?: Omit<JobEnd, "output">;
}

export class JobLog<F extends JobFacts> {
  readonly #log: WorkLog;
  readonly #kind: WorkKind;
  readonly #parentOf: (facts: F) => string;

  /** `parentOf`: what jobs are listed by besides their project, such as their satellite; never empty. */
  constructor(log: WorkLog, kind: WorkKind, parentOf: (facts: F) => string) {
    this.#log = log;
    this.#kind = kind;
    this.#parentOf = parentOf;
  }

  /** Who makes the id of a job of something else asks `isTaken`, and accepts it in the turn of the answer. Throws `conflict` for one that is being accepted. */
  accept(
    facts: F,
    progress: JobProgress,
    given: Uint8Array,
  ): { readonly task: number; readonly durable: Promise<void> } {
    const accepted = this.#accept(facts, { tried: progress }, given);
    if (progress.attempts > 0) this.#try(accepted.task, progress);
    return accepted;
  }

  /** A job that never was pending. */
  acceptEnded(facts: F, end: JobEnd): Promise<void> {
    const { task } = this.#accept(facts, {}, NO_BYTES);
    return this.#end({ task, facts }, end, 0);
  }

  /** Replaces how far a pending job is. */
  progress({ task, facts }: LoggedJob<F>, progress: JobProgress): Promise<void> {
    this.#try(task, progress);
    return this.#log.rewrite(task, bodyOf(facts, { tried: progress }));
  }

  /** Replaces what its attempts have kept. */
  keepNotes({ task }: LoggedJob<F>, notes: Uint8Array): Promise<void> {
    return this.#log.note(task, notes);
  }

  /** Replaces the input by the output; `hasNotes`: notes may have been kept. */
  end(job: LoggedJob<F> & { readonly hasNotes: boolean }, end: JobEnd): Promise<void> {
    if (job.hasNotes) void this.#log.note(job.task, undefined);
    return this.#end(job, end, job.progress.ambiguousAttempts);
  }

  /** What a pending job was accepted with. */
  async given({ task }: LoggedJob<F>): Promise<Uint8Array | undefined> {
    return (await this.#log.rows.loggedTask(task))?.request;
  }

  notes({ task }: LoggedJob<F>): Promise<Uint8Array | undefined> {
    return this.#log.notesOf(task);
  }

  /** All pending jobs, for the start. */
  async pending(): Promise<readonly LoggedJob<F>[]> {
    const numbers: number[] = [];
    for (const { number, kind } of this.#log.openTasks()) if (kind === this.#kind) numbers.push(number);
    const pending: LoggedJob<F>[] = [];
    for (let from = 0; from < numbers.length; from += OPEN_PAGE) {
      const page = numbers.slice(from, from + OPEN_PAGE);
      const rows = await this.#log.rows.loggedTasks({ numbers: page, limit: OPEN_PAGE });
      if (rows.length < page.length)
        throw new PerigeeError("store_damaged", "jobs of the work log have no rows; restore a copy");
      for (const row of rows) {
        const { facts, tried } = this.#read(row);
        pending.push({ task: row.number, facts, progress: this.#progressOf(row.number, facts, tried) });
      }
    }
    return pending;
  }

  /** Whether a task of the log has this id, of any project and kind. */
  async isTaken(id: string): Promise<boolean> {
    return (await this.#log.rows.loggedTask(id)) !== undefined;
  }

  /** Undefined if it does not exist or belongs to another project. */
  async find(project: string, id: string): Promise<StoredJob<F> | undefined> {
    const row = await this.#row(project, id);
    return row === undefined ? undefined : (await this.#stored(row, false)).job;
  }

  /** Up to `limit`, fewer with more than 8 MiB of outputs. Throws `not_found` when `after` is not one of them. */
  async list(
    project: string,
    { parent, after, limit, isBrief = false }: JobQuery,
  ): Promise<{ readonly items: readonly StoredJob<F>[]; readonly hasMore: boolean }> {
    const last = after === undefined ? undefined : await this.#row(project, after);
    if (after !== undefined && (last === undefined || (parent ?? last.parent) !== last.parent))
      throw new PerigeeError("not_found", "nothing of the list has this id", { details: { param: "after" } });
    const items: StoredJob<F>[] = [];
    let bytes = 0;
    for (let from = last?.number; ; ) {
      const wanted = Math.min(LIST_PAGE, limit + 1 - items.length);
      const rows = await this.#log.rows.loggedTasks({
        ...{ project: this.#log.number(project), kind: this.#kind, parent, after: from },
        ...{ limit: wanted, isNewestFirst: true },
      });
      for (const { job, outputBytes } of await Promise.all(rows.map((row) => this.#stored(row, isBrief)))) {
        if (items.length === limit || (bytes > LIST_BYTES_MAX && items.length > 0))
          return { items, hasMore: true };
        items.push(job);
        bytes += outputBytes;
      }
      if (rows.length < wanted) return { items, hasMore: false };
      from = rows.at(-1)?.number;
    }
  }

  /** Removes all jobs of a parent, pending ones without an end. */
  async removeOf(parent: string): Promise<void> {
    for (;;) {
      const rows = await this.#log.rows.loggedTasks({ kind: this.#kind, parent, limit: OPEN_PAGE });
      if (rows.length > 0) await this.#log.remove(rows.map(({ number }) => number));
      if (rows.length < OPEN_PAGE) return;
    }
  }

  #accept(facts: F, state: JobState, request: Uint8Array): ReturnType<WorkLog["accept"]> {
    const { id, project, createdWallMs, deadlineWallMs: deadlineMs } = facts;
    const [kind, parent, body] = [this.#kind, this.#parentOf(facts), bodyOf(facts, state)];
    return this.#log.accept({
      id,
      project,
      kind,
      parent,
      items: 1,
      deadlineMs,
      createdWallMs,
      body,
      request,
    });
  }

  /** Of an attempt of an earlier process, whose end nobody knows, nothing is said until the next one has ended. */
  #try(task: number, { attempts, ambiguousAttempts, isUnderWay, nextWallMs = 0 }: JobProgress): void {
    if (isUnderWay) {
      void this.#log.intend({ task, item: ITEM, attempt: attempts, ...UNLIMITED });
      return;
    }
    const attempt = this.#log.triedItems(task).get(ITEM)?.intents.at(-1)?.attempt ?? attempts;
    const counts = { attempts, ambiguousAttempts, uncounted: 0, uncountedAmbiguous: 0, unusableAnswers: 0 };
    const ended = { ...counts, code: 0, httpStatus: 0, nextMs: nextWallMs, ...UNPAID }; // the last error is in the job's row
    void this.#log.endAttempt({ task, item: ITEM, attempt, ...ended });
  }

  #end(
    { task, facts }: Pick<LoggedJob<F>, "task" | "facts">,
    end: JobEnd,
    ambiguousAttempts: number,
  ): Promise<void> {
    const { output, ...rest } = end;
    const { status, attempts, error } = end;
    const text = output === null ? NO_BYTES : new TextEncoder().encode(JSON.stringify(output));
    const outcome = {
      task,
      item: ITEM,
      status,
      code: numberOfCode(error?.code),
      attempts,
      ambiguousAttempts,
    };
    void this.#log.end({ ...outcome, ...UNPAID }, text);
    return this.#log.rewrite(task, bodyOf(facts, { end: rest }), true);
  }

  #progressOf(task: number, { createdWallMs }: F, tried: JobState["tried"]): JobProgress {
    const { ended, intents = [] } = this.#log.triedItems(task).get(ITEM) ?? {};
    const inDoubt = intents.filter(({ attempt }) => attempt > (ended?.attempts ?? 0));
    return {
      attempts: inDoubt.at(-1)?.attempt ?? ended?.attempts ?? 0,
      ambiguousAttempts: (ended?.ambiguousAttempts ?? 0) + Math.max(0, inDoubt.length - 1),
      isUnderWay: inDoubt.length > 0,
      ...{ isRepeatable: false, updatedWallMs: createdWallMs, ...tried },
      nextWallMs: inDoubt.length > 0 ? undefined : nextOf(ended),
    };
  }

  async #row(project: string, id: string): Promise<LoggedTask | undefined> {
    const row = await this.#log.rows.loggedTask(id);
    const isOurs = row?.kind === this.#kind && this.#log.text(row.project) === project;
    return isOurs ? row : undefined;
  }

  async #stored(
    row: LoggedTask,
    isBrief: boolean,
  ): Promise<{ readonly job: StoredJob<F>; readonly outputBytes: number }> {
    const { facts, end } = this.#read(row);
    if (end === undefined) return { job: { facts, end }, outputBytes: 0 };
    const hasOutput = end.status === "completed" && !isBrief;
    const answer = hasOutput
      ? (row.first ?? (await this.#log.rows.loggedAnswers(row.number, ITEM, 1))[0])
      : undefined;
    const bytes = answer?.text ?? NO_BYTES;
    const output =
      bytes.byteLength === 0 ? null : (JSON.parse(new TextDecoder().decode(bytes)) as JsonObject); // written by `#end`
    return { job: { facts, end: { ...end, output } }, outputBytes: bytes.byteLength };
  }

  #read({ id, project, createdWallMs, body }: LoggedTask): { readonly facts: F } & JobState {
    const { tried, end, ...rest } = JSON.parse(body) as JobState; // written by `bodyOf`
    const own = { ...rest, id, project: this.#log.text(project), createdWallMs };
    return { facts: own as unknown as F, ...(tried && { tried }), ...(end && { end }) }; // as above
  }
}

function bodyOf<F extends JobFacts>(facts: F, { tried, end }: JobState): string {
  const { id: _id, project: _project, createdWallMs: _created, ...rest } = facts;
  if (tried === undefined) return JSON.stringify({ ...rest, end });
  const { isRepeatable, updatedWallMs, last } = tried;
  return JSON.stringify({ ...rest, tried: { isRepeatable, updatedWallMs, last } });
}

function nextOf(ended: FieldsOf<"attemptEnded"> | undefined): number | undefined {
  return ended === undefined || ended.nextMs === 0 ? undefined : ended.nextMs;
}
