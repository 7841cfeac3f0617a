/**
 * Settling: an outcome becomes a price, a journal record and an output line.
 */
import { bodilessLine, bodyLine, type LineOwner } from "../../jsonl/body_lines.ts";
import {
  completedLine,
  errorJson,
  failedLine,
  type LineFacts,
  type LineText,
  wholeLine,
} from "../../jsonl/write.ts";
import { giveBackPlain } from "../../large_bytes.ts";
import type { LineLayout } from "../../work/line_layout.ts";
import type { AttemptFacts, Failure, Outcome } from "../../work/outcome.ts";
import { addSpent, type TakenEarlier } from "../journal/item_cost.ts";
import {
  type ClosedRecord,
  type IntentRecord,
  NOTHING_SPENT,
  type StagedOutcome,
  spentOf,
} from "../journal/journal.ts";
import type { EngineObserver, SettledReport } from "../journal/observer.ts";
import type { PriceTable } from "../journal/price_table.ts";
import type { AttemptsMade } from "../journal/replay.ts";
import type { SentFacts } from "../journal/sent_rows.ts";
import type { TaskLog } from "../journal/task_log.ts";
import { CUT_ANSWER, isCached, type Totals } from "../journal/totals.ts";
import type { ItemRecords, JoinedEnd, SentItem } from "./item_owner.ts";
import type { ItemStates } from "./item_states.ts";
import type { UnsentEnd } from "./run_stopped.ts";
import type { SentStatements } from "./sent_as.ts";

/** How ended items are written as lines. */
export interface TextTerms {
  readonly taskId: string;
  readonly prices: Pick<PriceTable, "sourceOf">;
  readonly layout: LineLayout;
  /** Whether errors name the line of their item: those of a file do. */
  readonly namesLines: boolean;
  /** Of a line that other runs have tried; absent without any. */
  readonly takenEarlier?: ((line: number) => TakenEarlier | undefined) | undefined;
}

/** An item that is answered without a request of its own. */
export interface CachedItem extends Pick<SentItem, "line" | "keyJson" | "model" | "metadata" | "warnings"> {
  /** Of the answer, whose requests another item paid. */
  readonly answer: Pick<
    Extract<Outcome, { readonly status: "completed" }>,
    "output" | "finish" | "members" | "parsed" | "usage"
  > & {
    /** The model that answered, as the provider names it, and its body where it is kept. */
    readonly last: Pick<AttemptFacts, "model" | "body" | "requestId">;
  };
}

/** An item whose outcome is durable; `sent` is absent if it ended without a request, or a further one, and where no listener wants it. */
export interface EndedLine {
  readonly line: number;
  readonly sent?: { readonly model: string; readonly outcome: Outcome } | undefined;
}

/** Who listens to a run's ended lines. */
export interface FinishListener {
  /** An outcome has become durable. */
  finished(ended: EndedLine): void;
  /** Whether `finished` needs to know how lines were sent that end from now on. */
  wantsOutcomes(): boolean;
}

/** What records of a run need of its settings. */
export interface RecordTerms extends TextTerms {
  readonly log: TaskLog;
  readonly totals: Totals;
  readonly observer: EngineObserver | undefined;
  readonly project: string;
  readonly sent: SentStatements;
}

/** The records of a run, in its journal and its output. */
export class RunRecords implements ItemRecords {
  readonly #terms: RecordTerms;
  readonly #items: ItemStates;
  readonly #listener: FinishListener;

  constructor(terms: RecordTerms, items: ItemStates, listener: FinishListener) {
    this.#terms = terms;
    this.#items = items;
    this.#listener = listener;
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
    const text = sentLine(this.#terms, item, outcome);
    if (item.warnings !== "") this.#warn(item.warnings);
    if (outcome.status === "completed" && outcome.finish === "length") this.#warn(CUT_ANSWER);
    const record = recordOf(item, outcome, sentFacts(this.#terms.sent, item, outcome));
    this.#stage(record, text, { sent: { model: item.model, outcome }, whenDurable });
  }

  /** Hot: what is kept of each item until all are durable is its line, unless somebody listens for more. */
  outcomes(ended: Iterable<JoinedEnd>, whenDurable: () => void): void {
    const { log, sent: statements, totals } = this.#terms;
    const settled: Settled[] = [];
    let facts: SentFacts | undefined;
    let last: Outcome | undefined;
    for (const { item, outcome } of ended) {
      const text = sentLine(this.#terms, item, outcome);
      if (item.warnings !== "") this.#warn(item.warnings);
      facts ??= sentFacts(statements, item, outcome);
      const record = recordOf(item, outcome, facts);
      totals.add(record);
      log.outcome(record, text);
      settled.push(this.#settled(record, { model: item.model, outcome }));
      last = outcome;
    }
    if (last !== undefined && settled.every(({ sent }) => sent === undefined)) giveBackAnswer(last);
    log.afterStaged(() => {
      for (const each of settled) this.#finish(each);
      whenDurable();
    });
  }

  /** An item is answered with an earlier answer to the same request. */
  cached(item: CachedItem): void {
    if (item.warnings !== "") this.#warn(item.warnings);
    const { record, text } = cachedEnding(this.#terms, item, this.#terms.sent);
    this.#stage(record, text, {});
  }

  unsent(line: number, keyJson: string | null, end: UnsentEnd, whenDurable?: () => void): void {
    const made = this.#items.made.get(line);
    const { record, text } = unsentEnding(this.#terms, made, { line, keyJson, end });
    const sent = unsentFacts(this.#terms.sent, record, made, end);
    this.#stage({ ...record, sent }, text, { whenDurable });
  }

  /** In the step of the line that is staged next. */
  #warn(warnings: string): void {
    this.#terms.totals.warn(warnings, 1);
    this.#terms.log.warned(warnings);
  }

  #stage(
    record: StagedOutcome,
    line: LineText,
    { sent, whenDurable }: Pick<EndedLine, "sent"> & { readonly whenDurable?: (() => void) | undefined },
  ): void {
    this.#terms.totals.add(record);
    const settled = this.#settled(record, sent);
    this.#terms.log.outcome(record, line, () => {
      this.#finish(settled);
      whenDurable?.();
    });
  }

  /** An outcome holds the whole answer: it is kept only for a listener that wants it. */
  #settled(record: StagedOutcome, sent: EndedLine["sent"]): Settled {
    const { observer, project } = this.#terms;
    const wanted = this.#listener.wantsOutcomes() ? sent : undefined;
    if (observer === undefined) return { line: record.line, sent: wanted, event: undefined };
    return { line: record.line, sent: wanted, event: eventOf(project, record, sent?.model) };
  }

  #finish(settled: Settled): void {
    this.#items.finished(settled.line);
    this.#listener.finished(settled);
    if (settled.event !== undefined) this.#terms.observer?.settled(settled.event);
  }
}

/** Its lines are copies, and nobody keeps it. */
function giveBackAnswer(outcome: Outcome): void {
  if (outcome.status !== "completed" || outcome.output.type === "text") return;
  const [value] = outcome.output.values;
  if (value !== undefined && typeof value !== "string") giveBackPlain(value);
}

/** What is kept of an outcome until it is durable. */
interface Settled extends EndedLine {
  readonly event: SettledReport | undefined;
}

function eventOf(project: string, record: StagedOutcome, model: string | undefined): SettledReport {
  const { status, code, inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd } = record;
  const cached = isCached(record) ? ({ isCached: true } as const) : {};
  const money = { listUsd, usd, billedUsd, ambiguousUsd };
  return { project, status, code, inputTokens, outputTokens, ...money, ...cached, model };
}

/** The line of an item that was sent. */
export function sentText(terms: TextTerms, item: SentItem, sent: Outcome): string {
  return wholeLine(sentLine(terms, item, sent));
}

function sentLine(terms: TextTerms, item: SentItem, sent: Outcome): LineText {
  const { keyJson, line, warnings } = item;
  const earlier = terms.takenEarlier?.(line);
  const spent = earlier === undefined ? item.spent : addSpent(earlier, item.spent);
  const outcome = earlier === undefined ? sent : withEarlier(sent, earlier);
  const { format, fields } = terms.layout;
  const facts = {
    used: spent,
    priceVersion: terms.prices.sourceOf(spent.priceNumber),
    last: outcome.last,
    requestedModel: item.model,
    metadata: item.metadata,
  };
  if (outcome.status === "completed") {
    if (format === "perigee") return completedLine(keyJson, outcome, facts, warnings, fields);
    return bodyLine(format, ownerOf(terms, keyJson, line), outcome.last, warnings);
  }
  const failure = terms.namesLines ? { ...outcome.failure, line } : outcome.failure;
  if (format !== "perigee")
    return bodilessLine(format, ownerOf(terms, keyJson, line), errorJson(failure, line), warnings);
  const told: LineFacts = outcome.attempts === 0 ? { metadata: facts.metadata, priceVersion: null } : facts;
  return failedLine(keyJson, terms.namesLines ? line : undefined, failure, told, warnings, fields);
}

/** The record and the line of an item that is answered from a cache. */
export function cachedEnding(
  terms: TextTerms,
  item: CachedItem,
  statements: SentStatements,
): { readonly record: StagedOutcome; readonly text: LineText } {
  const sent = statements.ended({ model: item.model, attempts: 0, isExpired: false });
  const counts = { status: "completed", code: undefined, attempts: 0, ambiguousAttempts: 0 } as const;
  return { record: { line: item.line, ...counts, ...NOTHING_SPENT, sent }, text: cachedText(terms, item) };
}

function cachedText(
  terms: TextTerms,
  { line, keyJson, model, metadata, warnings, answer }: CachedItem,
): LineText {
  const { format, fields } = terms.layout;
  const last = { latencyMs: 0, ...answer.last };
  if (format !== "perigee") return bodyLine(format, ownerOf(terms, keyJson, line), last, warnings);
  const { inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens } = answer.usage;
  const tokens = { inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens };
  const used = {
    ...tokens,
    listUsd: 0,
    billedUsd: 0,
    ambiguousUsd: 0,
    isEstimated: answer.usage.isEstimated,
  };
  const facts = { used, priceVersion: null, last, requestedModel: model, metadata, isCached: true };
  return completedLine(keyJson, { ...answer, attempts: 0 }, facts, warnings, fields);
}

function withEarlier(outcome: Outcome, earlier: TakenEarlier): Outcome {
  const attempts = outcome.attempts + earlier.attempts;
  if (outcome.status === "completed") return { ...outcome, attempts };
  const ambiguous_attempts = outcome.failure.ambiguous_attempts + earlier.ambiguousAttempts;
  return { ...outcome, attempts, failure: { ...outcome.failure, attempts, ambiguous_attempts } };
}

/** The record and the line of an item that ends without a request, or a further one. */
export function unsentEnding(
  terms: TextTerms,
  made: AttemptsMade | undefined,
  { line, keyJson, end }: { readonly line: number; readonly keyJson: string | null; readonly end: UnsentEnd },
): { readonly record: StagedOutcome; readonly text: string } {
  const { attempts = 0, ambiguousAttempts = 0, spent = NOTHING_SPENT } = made ?? {};
  const earlier = terms.takenEarlier?.(line);
  const failure: Failure = {
    code: end.code,
    message: end.message,
    retryable: end.retryable ?? (end.code === "expired" || end.code === "cancelled"),
    attempts: attempts + (earlier?.attempts ?? 0),
    ambiguous_attempts: ambiguousAttempts + (earlier?.ambiguousAttempts ?? 0),
    ...(terms.namesLines ? { line } : {}),
    ...(end.provider === undefined ? {} : { provider: end.provider }),
    ...(end.providerStatus === undefined ? {} : { provider_status: end.providerStatus }),
  };
  const record: StagedOutcome = {
    line,
    status: end.status,
    code: end.code,
    attempts,
    ambiguousAttempts,
    ...spentOf(spent),
  };
  const priceVersion = terms.prices.sourceOf(spent.priceNumber);
  const all = earlier === undefined ? spent : addSpent(earlier, spent);
  const used = failure.attempts === 0 ? undefined : all;
  const isNamed = failure.attempts > 0 || end.status === "failed"; // what was held names what it waited for
  const model = isNamed && end.model !== undefined ? { requestedModel: end.model } : {};
  const facts = { used, priceVersion, metadata: end.metadata ?? "", ...model };
  const { format, fields } = terms.layout;
  const text =
    format === "perigee"
      ? failedLine(keyJson, terms.namesLines ? line : undefined, failure, facts, "", fields)
      : bodilessLine(format, ownerOf(terms, keyJson, line), errorJson(failure, line), "");
  return { record, text };
}

function ownerOf({ taskId }: TextTerms, keyJson: string | null, line: number): LineOwner {
  return { keyJson, line, taskId };
}

/** How an item was sent that ends without a request, or a further one. */
export function unsentFacts(
  statements: SentStatements,
  { attempts, status }: StagedOutcome,
  made: AttemptsMade | undefined,
  { model = "", sentAs, startedWallMs = made?.startedWallMs }: UnsentEnd,
): SentFacts {
  return statements.ended({ model, sentAs, startedWallMs, attempts, isExpired: status === "expired" });
}

/** How an item was sent that ends now; the same for all that were sent with it. */
export function sentFacts(statements: SentStatements, item: SentItem, outcome: Outcome): SentFacts {
  const { model, sentAs, startedWallMs } = item;
  const { attempts, last, status } = outcome;
  const servedTier = last?.servedTier;
  const isExpired = status === "expired";
  return statements.ended({ model, sentAs, startedWallMs, servedTier, attempts, isExpired });
}

/** Hot: its parts are named, because V8 takes 0.6 us to spread an object with fractions in it. */
export function recordOf({ line, spent }: SentItem, outcome: Outcome, sent: SentFacts): StagedOutcome {
  return {
    sent,
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
