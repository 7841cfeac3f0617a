/**
 * The life of an item of a posted list, from what the work log still has of it: its entries are cut when the log grows (`log/log_cut.ts`),
 * then the requests of an item that has ended are known only by their sums.
 */

import type { FailureCode } from "../../errors.ts";
import { eachRecord, type FieldsOf, type LogRecord, readHeader } from "../../log/records.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { LogStore } from "../../store/log_rows.ts";
import { codeOfNumber } from "../../work/failure_numbers.ts";
import type { TaskObject } from "../../work/task.ts";
import { ItemLife, type LifeStep, outcomeText, type TraceEvent } from "../item_life.ts";
import {
  type ClosedRecord,
  type IntentRecord,
  NOTHING_SPENT,
  type OutcomeRecord,
  type SentRecord,
} from "../journal/journal.ts";
import type { EndedPosted } from "../posted/posted_reader.ts";
import { deadlineWallMsOf, type PostedRecord } from "../posted/posted_record.ts";
import { factsText, type ItemTrace, inOrder, shortHoldText, slaText } from "../trace.ts";

/** An item of a posted list. */
export interface LoggedItem {
  readonly record: PostedRecord;
  /** From 0. */
  readonly item: number;
  readonly key: string;
  /** Undefined while it is open, and then its object. */
  readonly ended: EndedPosted | undefined;
  readonly object: TaskObject | undefined;
}

/** One pass over the log. */
export async function traceLogged(
  store: Pick<LogStore, "logEntries">,
  log: Pick<WorkLog, "text">,
  { record, item, key, ended, object }: LoggedItem,
): Promise<ItemTrace> {
  const line = item + 1;
  const life = new ItemLife({ line, kept: "log" });
  const isOf = (one: LogRecord): one is Traced =>
    isTraced(one) && one.task === record.number && one.item === item;
  for await (const { sequence, records } of store.logEntries()) {
    const at = isoTime(readHeader(records).moment.wallMs);
    const own: Traced[] = [];
    eachRecord(records, (one) => {
      if (!isOf(one)) return;
      const isBefore = one.is === "attemptEnded" && one.attempt === 0; // sums until it was opened again
      if (isBefore) life.restate({ closed: [closedOf(one, line)], outcomes: [], isPriced }, at, false);
      else own.push(one);
    });
    if (own.length > 0) life.apply(sequence, stepOf(own, line, log), at);
  }
  const { createdWallMs, slaMinutes } = record;
  const accepted: TraceEvent = {
    at: isoTime(createdWallMs),
    event: "accepted",
    detail: `its task was stored: ${slaText(slaMinutes ?? undefined)}`,
  };
  const events = [accepted, ...life.events];
  if (ended === undefined) events.push(waiting(object));
  else events.push(...endEvents(record, ended, life));
  return { key, line, status: ended?.status ?? "open", events: inOrder(events) };
}

type Traced = { [K in "intent" | "attemptEnded" | "outcome"]: { readonly is: K } & FieldsOf<K> }[
  | "intent"
  | "attemptEnded"
  | "outcome"];

function isTraced(record: LogRecord): record is Traced {
  return record.is === "intent" || record.is === "attemptEnded" || record.is === "outcome";
}

/** Of a number in the log. */
function isPriced(price: number): boolean {
  return price > 0;
}

/** What an entry says of the item: its records are in no order. */
function stepOf(records: readonly Traced[], line: number, log: Pick<WorkLog, "text">): LifeStep {
  const intents: IntentRecord[] = [];
  const closed: ClosedRecord[] = [];
  const outcomes: OutcomeRecord[] = [];
  const sent: SentRecord[] = [];
  for (const record of records) {
    if (record.is === "attemptEnded") closed.push(closedOf(record, line));
    else if (record.is === "outcome") outcomes.push(outcomeOf(record, line));
    else {
      const { attempt, inputTokens, outputTokens, mostUsd, offset, lengthBytes, lane: number } = record;
      const reserved = { inputTokens, outputTokens };
      const lane = log.text(number);
      intents.push({ ...reserved, line, attempt, mostUsd, offset, lengthBytes, ambiguousAttempts: 0 });
      if (lane !== undefined) sent.push({ ...reserved, lane, requests: 1 });
    }
  }
  return { voids: 0, intents, closed, outcomes, sent, isPriced };
}

function closedOf(
  { code: number, httpStatus, price, isEstimated, attempt: _attempt, ...taken }: FieldsOf<"attemptEnded">,
  line: number,
): ClosedRecord {
  const code = codeOfNumber(number);
  const failure = code === undefined ? {} : { failure: { code, httpStatus } };
  return { ...taken, ...failure, line, isEstimated: isEstimated === 1, priceNumber: price };
}

function outcomeOf(
  { code, textBytes, textCrc32, price, isEstimated, ...taken }: FieldsOf<"outcome">,
  line: number,
): OutcomeRecord {
  return {
    ...taken,
    line,
    isEstimated: isEstimated === 1,
    priceNumber: price,
    code: codeOfNumber(code),
    lineBytes: textBytes,
    lineCrc32: textCrc32,
  };
}

/** Its end, where the log does not have it any more or it ended with the rest of its list, and its answer. */
function endEvents(record: PostedRecord, ended: EndedPosted, life: ItemLife): TraceEvent[] {
  const { status, isAnswered, endedWallMs, taken } = ended;
  const restMs = deadlineWallMsOf(record);
  const restAt = restMs === undefined ? null : isoTime(restMs);
  const at = life.settledAt ?? (isAnswered ? isoTime(endedWallMs) : restAt);
  const events: TraceEvent[] = [];
  if (life.outcome === undefined) {
    const spent = { ...NOTHING_SPENT, attempts: 0, price: 0, ...taken };
    const code = status === "completed" ? undefined : codeOfEnd(ended);
    const detail = outcomeText(
      { ...spent, status, code, isEstimated: taken?.isEstimated === 1 },
      isPriced(spent.price),
    );
    events.push({ at, event: "committed", detail });
  }
  const facts = factsText(Buffer.from(ended.line));
  events.push({ at, event: "written", detail: `its answer is in the work log${facts}` });
  return events;
}

/** Undefined for an answer without an error. */
function codeOfEnd({ status, isAnswered, taken }: EndedPosted): FailureCode | undefined {
  if (isAnswered) return taken === undefined ? undefined : codeOfNumber(taken.code);
  return status === "cancelled" ? "cancelled" : "expired";
}

function waiting(object: TaskObject | undefined): TraceEvent {
  const at = null;
  const { phase, held } = object ?? {};
  if (phase === "running")
    return { at, event: "waiting", detail: "the request is under way, or is about to be sent" };
  const what = phase === "retrying" ? "its next request" : "its first request";
  const detail =
    held === undefined
      ? `${what} waits for its turn, for limits and for money`
      : `${what} waits until this is over: ${shortHoldText(held, true)}`;
  return { at, event: "waiting", detail };
}

function isoTime(wallMs: number): string {
  return new Date(wallMs).toISOString();
}
