/**
 * Settling: an outcome becomes a price, a journal record and an output line.
 */
import { bodilessLine, bodyLine, type LineOwner } from "../../jsonl/body_lines.ts";
import { completedLine, errorJson, failedLine, type LineFacts } from "../../jsonl/write.ts";
import type { LineLayout } from "../../work/line_layout.ts";
import type { Failure, Outcome } from "../../work/outcome.ts";
import {
  type ClosedRecord,
  type IntentRecord,
  NOTHING_SPENT,
  type StagedOutcome,
  spentOf,
} from "../journal/journal.ts";
import type { EngineObserver } from "../journal/observer.ts";
import type { PriceTable } from "../journal/price_table.ts";
import type { TaskLog } from "../journal/task_log.ts";
import type { Totals } from "../journal/totals.ts";
import type { ItemRecords, SentItem } from "./item_owner.ts";
import type { ItemStates } from "./item_states.ts";
import type { UnsentEnd } from "./run_stopped.ts";

/** What records of a run need of its settings. */
export interface RecordTerms {
  readonly taskId: string;
  readonly log: TaskLog;
  readonly totals: Totals;
  readonly prices: PriceTable;
  /** Of its output lines. */
  readonly layout: LineLayout;
  readonly observer: EngineObserver | undefined;
  readonly project: string;
}

/** The records of a run, in its journal and its output. */
export class RunRecords implements ItemRecords {
  readonly #terms: RecordTerms;
  readonly #items: ItemStates;
  readonly #onFinished: () => void;

  /** `onFinished`: called after an outcome has become durable. */
  constructor(terms: RecordTerms, items: ItemStates, onFinished: () => void) {
    this.#terms = terms;
    this.#items = items;
    this.#onFinished = onFinished;
  }

  intent(record: IntentRecord, lane: string, whenDurable: () => void): void {
    this.#terms.log.intent(record, lane, whenDurable);
  }

  intentAgain(record: IntentRecord): void {
    this.#terms.log.intentAgain(record);
  }

  closed(record: ClosedRecord): void {
    this.#terms.log.closed(record);
  }

  sentMore(lane: string, inputTokens: number, outputTokens: number): void {
    this.#terms.log.sentMore(lane, inputTokens, outputTokens);
  }

  outcome(item: SentItem, outcome: Outcome, whenDurable: () => void): void {
    const { spent, warnings } = item;
    const facts = {
      used: spent,
      priceVersion: this.#terms.prices.sourceOf(spent.priceNumber),
      last: outcome.last,
      requestedModel: item.model,
      metadata: item.metadata,
    };
    const line = this.#lineOf(item, outcome, facts);
    if (warnings !== "") this.#warn(warnings);
    this.#stage(recordOf(item, outcome), line, whenDurable);
  }

  unsent(line: number, keyJson: string | null, end: UnsentEnd, whenDurable?: () => void): void {
    const made = this.#items.made.get(line);
    const failure: Failure = {
      code: end.code,
      message: end.message,
      retryable: end.retryable ?? (end.code === "expired" || end.code === "cancelled"),
      attempts: made?.attempts ?? 0,
      ambiguous_attempts: made?.ambiguousAttempts ?? 0,
      line,
      ...(end.provider === undefined ? {} : { provider: end.provider }),
      ...(end.providerStatus === undefined ? {} : { provider_status: end.providerStatus }),
    };
    const record: StagedOutcome = {
      line,
      status: end.status,
      code: end.code,
      attempts: failure.attempts,
      ambiguousAttempts: failure.ambiguous_attempts,
      ...spentOf(made?.spent ?? NOTHING_SPENT),
    };
    const { spent } = made ?? {};
    const priceVersion = this.#terms.prices.sourceOf(spent?.priceNumber ?? 0);
    const used = failure.attempts === 0 ? undefined : spent;
    const isNamed = failure.attempts > 0 || end.status === "failed"; // what was held names what it waited for
    const model = isNamed && end.model !== undefined ? { requestedModel: end.model } : {};
    const facts = { used, priceVersion, metadata: end.metadata ?? "", ...model };
    const { format, fields } = this.#terms.layout;
    const text =
      format === "perigee"
        ? failedLine(keyJson, line, failure, facts, "", fields)
        : bodilessLine(format, this.#ownerOf(keyJson, line), errorJson(failure, line), "");
    this.#stage(record, text, whenDurable);
  }

  #lineOf({ keyJson, line, warnings }: SentItem, outcome: Outcome, facts: LineFacts): string {
    const { format, fields } = this.#terms.layout;
    if (outcome.status === "completed") {
      if (format === "perigee") return completedLine(keyJson, outcome, facts, warnings, fields);
      return bodyLine(format, this.#ownerOf(keyJson, line), outcome.last, warnings);
    }
    const failure = { ...outcome.failure, line };
    if (format !== "perigee")
      return bodilessLine(format, this.#ownerOf(keyJson, line), errorJson(failure, line), warnings);
    const told = outcome.attempts === 0 ? { metadata: facts.metadata ?? "", priceVersion: null } : facts;
    return failedLine(keyJson, line, failure, told, warnings, fields);
  }

  #ownerOf(keyJson: string | null, line: number): LineOwner {
    return { keyJson, line, taskId: this.#terms.taskId };
  }

  /** Goes with the step of the line that is staged next. */
  #warn(warnings: string): void {
    this.#terms.totals.warn(warnings, 1);
    this.#terms.log.warned(warnings);
  }

  #stage(record: StagedOutcome, line: string, whenDurable?: () => void): void {
    const { log, observer, project, totals } = this.#terms;
    totals.add(record);
    log.outcome(record, line, () => {
      this.#items.finished(record.line);
      this.#onFinished();
      if (observer !== undefined) {
        const { status, code, inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd } = record;
        const tokens = { inputTokens, outputTokens };
        observer.settled({ project, status, code, ...tokens, listUsd, usd, billedUsd, ambiguousUsd });
      }
      whenDurable?.();
    });
  }
}

/** Hot: its parts are named, because V8 takes 0.6 us to spread an object with fractions in it. */
function recordOf({ line, spent }: SentItem, outcome: Outcome): StagedOutcome {
  return {
    line,
    status: outcome.status,
    code: outcome.status === "completed" ? undefined : outcome.failure.code,
    attempts: outcome.attempts,
    ambiguousAttempts: outcome.ambiguousAttempts,
    isEstimated: spent.isEstimated,
    inputTokens: spent.inputTokens,
    cachedTokens: spent.cachedTokens,
    cacheWriteTokens: spent.cacheWriteTokens,
    outputTokens: spent.outputTokens,
    reasoningTokens: spent.reasoningTokens,
    listUsd: spent.listUsd,
    usd: spent.usd,
    billedUsd: spent.billedUsd,
    ambiguousUsd: spent.ambiguousUsd,
    priceNumber: spent.priceNumber,
  };
}
