/**
 * The records of posted items in the work log. The text of an ended item (`answer_text.ts`) is in the row of its answer.
 */

import type { Clock } from "../../clock.ts";
import { wholeLine } from "../../jsonl/write.ts";
import { numberOfCode } from "../../work/failure_numbers.ts";
import type { Outcome } from "../../work/outcome.ts";
import type { ItemRecords, JoinedEnd, SentItem } from "../items/item_owner.ts";
import type { UnsentEnd } from "../items/run_stopped.ts";
import { SentStatements } from "../items/sent_as.ts";
import {
  type CachedItem,
  cachedEnding,
  recordOf,
  sentFacts,
  sentText,
  type TextTerms,
  unsentEnding,
  unsentFacts,
} from "../items/settle.ts";
import type { ClosedRecord, IntentRecord, StagedOutcome } from "../journal/journal.ts";
import type { EngineObserver } from "../journal/observer.ts";
import type { PriceTable } from "../journal/price_table.ts";
import type { SentFacts } from "../journal/sent_rows.ts";
import { isCached } from "../journal/totals.ts";
import { answerText } from "./answer_text.ts";
import type { PostedItems } from "./posted_items.ts";
import type { PostedLog } from "./posted_log.ts";
import { type ReportedTaken, reportEnd } from "./posted_reports.ts";

const NOTHING = (): void => undefined;

/** What records of a group need in addition to the group. */
export interface PostedTerms extends TextTerms {
  readonly log: PostedLog;
  readonly observer: EngineObserver | undefined;
  readonly prices: Pick<PriceTable, "sourceOf" | "versionOf">;
  readonly clock: Clock;
  /** Whether the acceptance of a task is not durable yet: its intents end with it if it is refused. */
  readonly isEntering: (task: number) => boolean;
  /** An attempt has ended durably, and its item continues. */
  readonly onTried: (task: number) => void;
  /** An item has ended durably. */
  readonly onEnded: (owner: PostedItems, record: StagedOutcome, endedWallMs: number) => void;
}

/**
 * One for a group of posted items. Hot: records are literals with all their fields, because V8 takes 5 us to add twenty members to the
 * copy of an object.
 */
export class PostedRecords implements ItemRecords {
  readonly #terms: PostedTerms;
  readonly #owner: PostedItems;
  readonly #sent: SentStatements;
  /** Numbers of the attempts under way, by line. */
  readonly #attempts = new Map<number, number[]>();
  /** What lines took before they were opened again, already reported then. */
  readonly #before = new Map<number, ReportedTaken>();

  constructor(terms: PostedTerms, owner: PostedItems) {
    this.#terms = terms;
    this.#owner = owner;
    const { deadlineMs } = owner.settings;
    const deadlineWallMs = Number.isFinite(deadlineMs) ? 0 : null; // of each task its own, by `#end`
    this.#sent = new SentStatements({ clock: terms.clock, deadlineMs, deadlineWallMs });
  }

  intent(record: IntentRecord, lane: string, whenDurable: () => void): void {
    this.#intend(record, lane, whenDurable);
  }

  intentAgain(record: IntentRecord): void {
    this.#intend(record, undefined, undefined);
  }

  closed(record: ClosedRecord): void {
    const { line, attempts: counted } = record;
    const { number: task, firstLine } = this.#owner.taskAt(line);
    const underWay = this.#attempts.get(line) ?? [];
    const ended = underWay.includes(counted) ? [counted] : underWay; // requests that were never sent are not counted
    this.#attempts.set(
      line,
      underWay.filter((attempt) => !ended.includes(attempt)),
    );
    const { isEstimated, priceNumber, line: _line, failure, ...taken } = record;
    for (const attempt of ended.length === 0 ? [counted] : ended)
      this.#terms.log.write(
        (log) =>
          log.endAttempt({
            ...taken,
            task,
            item: line - firstLine,
            attempt,
            nextMs: 0,
            isEstimated: isEstimated ? 1 : 0,
            price: this.#priceOf(priceNumber),
            code: numberOfCode(failure?.code),
            httpStatus: failure?.httpStatus ?? 0,
          }),
        () => this.#terms.onTried(task),
      );
  }

  sentMore(lane: string, inputTokens: number, outputTokens: number): void {
    this.#terms.log.write((log) => log.sentMore(log.number(lane), inputTokens, outputTokens));
  }

  outcome(item: SentItem, outcome: Outcome, whenDurable: () => void): void {
    const { answers } = this.#owner;
    const ended =
      answers === undefined
        ? whenDurable
        : () => {
            void answers.ended(this.#owner, item.line, item.model, outcome);
            whenDurable();
          };
    const record = recordOf(item, outcome, sentFacts(this.#sent, item, outcome));
    this.#end(record, sentText(this.#terms, item, outcome), ended);
  }

  /** The log writes rows in the order of these calls, and the last one calls back. */
  outcomes(ended: Iterable<JoinedEnd>, whenDurable: () => void): void {
    const all = [...ended];
    all.forEach(({ item, outcome }, index) => {
      this.outcome(item, outcome, index === all.length - 1 ? whenDurable : NOTHING);
    });
  }

  /** An item is answered with an earlier answer to the same request. */
  cached(item: CachedItem): void {
    const { record, text } = cachedEnding(this.#terms, item, this.#sent);
    this.#end(record, wholeLine(text));
  }

  unsent(line: number, keyJson: string | null, end: UnsentEnd, whenDurable?: () => void): void {
    const made = this.#owner.items.made.get(line);
    const { record, text } = unsentEnding(this.#terms, made, { line, keyJson, end });
    record.sent = unsentFacts(this.#sent, record, made, end);
    this.#end(record, text, whenDurable);
  }

  #intend(record: IntentRecord, lane: string | undefined, whenDurable: (() => void) | undefined): void {
    const { line, attempt, inputTokens, outputTokens, mostUsd } = record;
    const { number: task, firstLine } = this.#owner.taskAt(line);
    const underWay = this.#attempts.get(line);
    if (underWay === undefined) {
      this.#attempts.set(line, [attempt]);
      const before = this.#beforeOf(task, line - firstLine);
      if (before !== undefined) this.#before.set(line, before);
    } else if (!underWay.includes(attempt)) underWay.push(attempt);
    const intent = {
      task,
      item: line - firstLine,
      attempt,
      lane: lane === undefined ? 0 : this.#terms.log.log.number(lane),
      inputTokens,
      outputTokens,
      mostUsd,
      offset: 0,
      lengthBytes: 0,
    };
    const { log, isEntering } = this.#terms;
    const endsWith = isEntering(task) ? (): boolean => this.#endsWith(task, whenDurable) : undefined;
    log.write((into) => into.intend(intent), whenDurable, endsWith);
    this.#owner.version += 1;
  }

  /** The commit of an intent was refused. Whether its task is not accepted either: then its group is over, and its request not sent. */
  #endsWith(task: number, giveUp: (() => void) | undefined): boolean {
    if (this.#terms.log.log.has(task)) return false;
    this.#owner.phase = "done";
    giveUp?.();
    return true;
  }

  /** Items that ended with the rest of their task meanwhile keep that end. */
  #end(record: StagedOutcome, text: string, whenDurable?: () => void): void {
    const { line, status, code, inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd } = record;
    const { log, clock, observer } = this.#terms;
    const { project } = this.#owner.settings;
    const isReported = this.#owner.items.done.has(line); // reported with the rest of its task
    const { number: task, firstLine, wallOffsetMs } = this.#owner.taskAt(line);
    const item = line - firstLine;
    const before = this.#before.get(line) ?? this.#beforeOf(task, item);
    this.#attempts.delete(line);
    this.#before.delete(line);
    const isOpen = this.#terms.isEntering(task) || log.log.isOpen(task, item);
    const endedWallMs = Math.round(clock.nowMs() + wallOffsetMs);
    const bytes = Buffer.from(this.#textOf(record, text, { endedWallMs, wallOffsetMs }));
    const ended = (): void => {
      this.#owner.items.finished(line);
      const cached = isCached(record) ? ({ isCached: true } as const) : {};
      if (!isReported) reportEnd(observer, project, { status, code, taken: record, before, ...cached });
      this.#terms.onEnded(this.#owner, record, endedWallMs);
      this.#owner.changed();
      whenDurable?.();
    };
    if (!isOpen) {
      ended();
      return;
    }
    const outcome = {
      task,
      item,
      status,
      code: numberOfCode(code),
      attempts: record.attempts,
      ambiguousAttempts: record.ambiguousAttempts,
      isEstimated: record.isEstimated ? 1 : 0,
      price: this.#priceOf(record.priceNumber),
      inputTokens,
      cachedTokens: record.cachedTokens,
      cacheWriteTokens: record.cacheWriteTokens,
      outputTokens,
      reasoningTokens: record.reasoningTokens,
      listUsd,
      usd,
      billedUsd,
      ambiguousUsd,
    };
    log.write((into) => into.end(outcome, bytes), ended);
  }

  #textOf(
    { sent, priceNumber }: StagedOutcome,
    line: string,
    { endedWallMs, wallOffsetMs }: { readonly endedWallMs: number; readonly wallOffsetMs: number },
  ): string {
    const { as, startedWallMs, isMet } = sent as SentFacts; // both callers state it
    const { model, lane, tierAsked, tier, batch } = as;
    const deadlineWallMs =
      as.deadlineWallMs === null ? null : Math.round(this.#owner.settings.deadlineMs + wallOffsetMs);
    const statement = { model, lane, tierAsked, tier, batch, deadlineWallMs };
    const priceVersion = this.#terms.prices.versionOf(priceNumber);
    return answerText({ as: statement, startedWallMs, endedWallMs, isMet, priceVersion }, line);
  }

  /** What an item took before it was opened again, while its task is open. */
  #beforeOf(task: number, item: number): ReportedTaken | undefined {
    return this.#terms.log.log.triedItems(task).get(item)?.before;
  }

  /** The number of a price in the log. */
  #priceOf(number: number): number {
    const source = this.#terms.prices.sourceOf(number);
    return source === null ? 0 : this.#terms.log.log.number(source);
  }
}
