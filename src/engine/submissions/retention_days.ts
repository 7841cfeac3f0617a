/**
 * Lists that are removed by themselves: those that were submitted with `retentionDays`, once these have passed since their end.
 *
 *   resting (an hour, a minute at first) -> looking: all lists, a page at a time -> resting
 *
 * A list that is at work is skipped, and checked again an hour later. Nothing is stored but the days with each list, so that a restart loses
 * nothing. A wall clock that jumps ahead does not count within a process: ages are measured by the time that passed since its start.
 *
 * Limits: 500 lists a page, a second apart.
 */
import type { Clock, Timer } from "../../clock.ts";
import { hasCode, PerigeeError } from "../../errors.ts";
import { WORK_KINDS } from "../../log/work_kinds.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { Store } from "../../store/store.ts";
import { storedTasks } from "../files/stored_tasks.ts";
import { deadlineWallMsOf, rowToPosted } from "../posted/posted_record.ts";
import { submissionIn } from "./submission_body.ts";

const FIRST_MS = 60_000;
const REST_MS = 3_600_000;
const PAGE = 500;
const PACE_MS = 1_000;
const DAY_MS = 86_400_000;
const DAYS_MAX = 3_650;

/** Throws `usage` for days out of range; `where` names the call. */
export function checkRetention(days: number | undefined, where: string): void {
  if (days === undefined || (days >= 1 && days <= DAYS_MAX)) return;
  throw new PerigeeError(
    "usage",
    `${where}: retentionDays must be 1 to ${DAYS_MAX}, got ${JSON.stringify(days)}`,
  );
}

interface RetentionDaysOptions {
  readonly clock: Clock;
  readonly store: Store;
  /** Undefined before the first list that is a posted task. */
  readonly log: () => Promise<WorkLog | undefined>;
  /** Throws `conflict` for a task that is at work, `not_found`. */
  readonly forget: (taskId: string) => Promise<void>;
}

/** One for an engine, from its start until it is closed. */
export class RetentionDays {
  readonly #options: RetentionDaysOptions;
  readonly #startWallMs: number;
  readonly #startMs: number;
  readonly #closing = new AbortController();
  #timer: Timer | undefined;

  constructor(options: RetentionDaysOptions) {
    const { clock } = options;
    this.#options = options;
    this.#startWallMs = clock.wallMs();
    this.#startMs = clock.nowMs();
    this.#rest(FIRST_MS);
  }

  close(): void {
    this.#closing.abort(new PerigeeError("closed", "the engine is closing"));
    this.#timer?.cancel();
  }

  #rest(ms: number): void {
    if (this.#closing.signal.aborted) return;
    const look = (): void => {
      this.#look()
        .catch(() => undefined) // in an hour, then
        .finally(() => this.#rest(REST_MS));
    };
    this.#timer = this.#options.clock.timer(ms, look, { keepsAlive: false });
  }

  async #look(): Promise<void> {
    const { clock, store } = this.#options;
    const nowWallMs = Math.min(clock.wallMs(), this.#startWallMs + clock.nowMs() - this.#startMs);
    await this.#posted(nowWallMs);
    for await (const { id, body, createdWallMs } of storedTasks(store)) {
      const { retentionDays, parts = [] } = submissionIn(body) ?? {};
      const slaMinutes = Math.max(0, ...parts.map(({ sla }) => sla ?? 0));
      const endMs = createdWallMs + slaMinutes * 60_000;
      if (isOver(endMs, retentionDays, nowWallMs)) await this.#remove(id);
    }
  }

  async #posted(nowWallMs: number): Promise<void> {
    const { clock, log: opened } = this.#options;
    const log = await opened();
    for (let after = 0; log !== undefined; ) {
      const rows = await log.rows.loggedTasks({ kind: WORK_KINDS.list, after, limit: PAGE });
      for (const row of rows) {
        if (log.has(row.number)) continue;
        const task = rowToPosted(log, row);
        const endMs = deadlineWallMsOf(task) ?? task.sinceWallMs ?? task.createdWallMs;
        if (isOver(endMs, task.retentionDays, nowWallMs)) await this.#remove(task.id);
      }
      after = rows.at(-1)?.number ?? after;
      if (rows.length < PAGE) return;
      await clock.sleep(PACE_MS, { signal: this.#closing.signal });
    }
  }

  async #remove(id: string): Promise<void> {
    this.#closing.signal.throwIfAborted();
    await this.#options.forget(id).catch((error: unknown) => {
      if (!hasCode(error, "conflict") && !hasCode(error, "not_found")) throw error;
    });
  }
}

function isOver(endMs: number, days: number | undefined, nowWallMs: number): boolean {
  return days !== undefined && endMs + days * DAY_MS <= nowWallMs;
}
