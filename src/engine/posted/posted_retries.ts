/**
 * Runs items of posted tasks that ended in an error again: admits them as new work, and opens them again in the work log in one commit.
 *
 * The window of an item counts from its retry. While other items of its task are open it has their deadline instead, because a task has
 * only one. The price factor does not change.
 */

import { PerigeeError } from "../../errors.ts";
import type { TakenBefore } from "../../log/accepted_work.ts";
import type { EndedItem, WorkLog } from "../../log/work_log.ts";
import { NO_MONEY } from "../../price/money.ts";
import { requestShareOf } from "../../shard/joined_body.ts";
import { kindOf, modelOf } from "../../shard/measured.ts";
import type { EngineCore } from "../core.ts";
import { CountedWorks } from "../plans/counted_work.ts";
import type { RetryFailed } from "../reopening/reopen.ts";
import { isWanted } from "../reopening/wanted_errors.ts";
import type { Admits, AdmittedWork, Work } from "./admitting.ts";
import { type EndedPosted, lineOf, type PostedItemReader } from "./posted_reader.ts";
import { bodyOf, deadlineWallMsOf, type PostedRecord, restEndedWallMs } from "./posted_record.ts";
import { postedSales } from "./posted_sales.ts";
import type { PostedWork } from "./posted_work.ts";

const RETRIES_MAX = 64;
const LINE_END = 0x0a;

export interface PostedRetriesOptions<A extends AdmittedWork> {
  readonly core: Pick<EngineCore, "storage" | "config" | "measurer" | "sending">;
  readonly log: WorkLog;
  readonly work: PostedWork;
  readonly admission: Admits<A>;
  readonly reader: PostedItemReader;
}

/** A task whose items are open again. */
export interface RetriedPosted<A> {
  readonly task: PostedRecord;
  readonly items: number;
  /** What it holds; undefined if nothing has changed. */
  readonly admitted: A | undefined;
}

/** One for a store; it retries one task at a time. */
export class PostedRetries<A extends AdmittedWork> {
  readonly #options: PostedRetriesOptions<A>;

  constructor(options: PostedRetriesOptions<A>) {
    this.#options = options;
  }

  /** Resolves when it is durable. `heldUsd`: for its open items. Throws `too_many` after 64 retries, and what admission throws. */
  async retry(task: PostedRecord, retry: RetryFailed, heldUsd: number): Promise<RetriedPosted<A>> {
    const { core, log, work, admission, reader } = this.#options;
    const items: EndedItem[] = [];
    const rest = { cancelled: [] as number[], expired: [] as number[], endedWallMs: 0 };
    for await (const ended of reader.ended(task)) {
      const { item, status, isAnswered } = ended;
      const { error } = lineOf(ended);
      if (status === "completed" || error === undefined) continue;
      if (isWanted(error, retry, core.config.isAtMostOnce))
        items.push({ item, status, taken: takenBefore(ended, core.config.isAtMostOnce) });
      else if (!isAnswered) {
        rest[status === "cancelled" ? "cancelled" : "expired"].push(item);
        rest.endedWallMs = Math.max(rest.endedWallMs, restEndedWallMs(task, item, status));
      }
    }
    if (items.length === 0) return { task, items: 0, admitted: undefined };
    const { retries = 0, project, number } = task;
    if (retries >= RETRIES_MAX)
      throw new PerigeeError("too_many", `a task has at most ${RETRIES_MAX} retries: submit the items anew`);
    const works = await this.#worksOf(task, items);
    const admitted = await admission.admit(project, works, { items: items.length, bytes: 0 });
    try {
      const { isCancelled: _was, cancelledWallMs: _since, endsWithCaller: _caller, ...left } = task;
      const sums = await log.sumsOf(number);
      const again = new Set(items.map(({ item }) => item));
      const sold = await postedSales(reader, task, (item) => !again.has(item));
      const next: PostedRecord = {
        ...left,
        retries: retries + 1,
        estimatedUsd: heldUsd + admitted.estimatedUsd,
        estimatedItems: (log.task(number)?.left ?? 0) + items.length,
        ...(log.has(number) ? {} : { sinceWallMs: core.storage.clock.wallMs() }),
        rest,
        ...(sums === undefined
          ? {}
          : {
              noted: log.has(number)
                ? notedOpen(task, items.length)
                : { ...notedOf(sums, items.length), ...sold },
            }),
      };
      const deadlineWallMs = deadlineWallMsOf(next);
      await work.reopen(number, project, { items, deadlineWallMs, body: bodyOf(next) });
      return { task: next, items: items.length, admitted };
    } catch (error) {
      admitted.hold.release();
      admitted.room.release();
      throw error;
    }
  }

  /** Counts them again, because the row does not contain the limits of items. */
  async #worksOf(
    { number, slaMinutes, totalItems }: PostedRecord,
    items: readonly EndedItem[],
  ): Promise<Work[]> {
    const { log, core } = this.#options;
    const { request = new Uint8Array() } = (await log.rows.loggedTask(number)) ?? {};
    const bytes = new Uint8Array(request.byteLength + 1).fill(LINE_END);
    bytes.set(request);
    const block = { bytes, offset: 0, firstLine: 1, lineCount: totalItems };
    const measured = await core.measurer.measure(block, { wantBodies: false });
    const lines = new Set(items.map(({ item }) => item + 1));
    const works = new CountedWorks(core.sending.sender.loads);
    for (let item = 0; item < measured.count; item += 1) {
      if (!lines.has(measured.lines[item] as number)) continue;
      works.add({
        model: modelOf(measured, item),
        kind: kindOf(measured, item),
        requests: requestShareOf(measured, item),
        inputTokens: measured.inputTokens[item] as number,
        maxOutputTokens: measured.maxOutputTokens[item] as number,
      });
    }
    return works.all.map((work) => ({ ...work, slaMinutes, volumeTokens: 0 }));
  }
}

/**
 * Earlier attempts count in the totals, but not against the item. Under at-most-once delivery, an earlier attempt that may have been
 * answered would keep the item from being sent although the caller requested it again: the sums of its task count that attempt instead.
 */
function takenBefore({ taken }: EndedPosted, isAtMostOnce: boolean): TakenBefore | undefined {
  if (taken === undefined || taken.attempts === 0) return undefined;
  const { attempts, isEstimated, price } = taken;
  const ambiguousAttempts = isAtMostOnce ? 0 : taken.ambiguousAttempts;
  const { inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens } = taken;
  const { listUsd, usd, billedUsd, ambiguousUsd } = taken;
  return {
    ...{ attempts, ambiguousAttempts, uncounted: attempts, uncountedAmbiguous: ambiguousAttempts },
    ...{ inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens },
    ...{ listUsd, usd, billedUsd, ambiguousUsd, isEstimated, price },
    ...{ unusableAnswers: 0, code: 0, httpStatus: 0 },
  };
}

/** For a task that is open: its end notes what it used since the last note, and the items that run again a second time. */
function notedOpen({ noted = NOTHING_NOTED }: PostedRecord, again: number): Noted {
  return { ...noted, items: noted.items - again };
}

type Noted = NonNullable<PostedRecord["noted"]>;

const NOTHING_NOTED: Noted = { items: 0, inputTokens: 0, outputTokens: 0, ...NO_MONEY };

/** The earlier notes without the items that run again, because their new end notes them again. */
function notedOf(
  sums: Omit<Noted, "items"> & {
    readonly [status in "completed" | "failed" | "expired" | "cancelled"]: number;
  },
  again: number,
): Noted {
  const { inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd } = sums;
  const items = sums.completed + sums.failed + sums.expired + sums.cancelled - again;
  return { items, inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd };
}
