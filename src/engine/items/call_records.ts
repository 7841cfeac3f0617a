/**
 * The items of a call, taken apart: their records, one for each also where several share a request, and what continues of them. So
 * a line has its own intent, attempts, costs and outcome, and what is read after a stop knows nothing of shared requests.
 *
 *   intents    one for each line in one step; the request counts once for its lane, with the tokens of all
 *   closed     an attempt ended: for each line, with its share of what it took
 *   outcome    an answer: each line has its part; a failure is that of each line
 *   parts      items that continue, or end, together
 *
 * Hot path: once for each item of a shared request (bench/jobs/embeddings.ts).
 */
import type { DispatchResult, Made } from "../../dispatch/dispatcher.ts";
import { madeOf } from "../../dispatch/tally.ts";
import type { LaneTerms } from "../../queue/lanes.ts";
import { type AttemptFacts, type Outcome, valueText, type WrittenValue } from "../../work/outcome.ts";
import type { IntentRecord } from "../journal/journal.ts";
import type { AttemptsMade } from "../journal/replay.ts";
import { ItemCall } from "./item_call.ts";
import type { ItemLoads } from "./item_loads.ts";
import type { JoinedEnd, SentItem } from "./item_owner.ts";
import type { UnsentEnd } from "./run_stopped.ts";

/** Items that continue, or end, together. `index`: in the shard of their call. */
export interface CallPart {
  readonly index: number;
  readonly count: number;
  /** Whether they were cancelled by themselves. */
  readonly isSkipped: boolean;
}

/** Whether one of several was cancelled, is done or is with a lane, so that they are to be taken apart. */
export function isBroken({ count, owner, lines }: ItemCall): boolean {
  return count > 1 && lines.some((line) => owner.skips(line) || !owner.items.isOpen(line));
}

/** Runs of its items that were cancelled by themselves, or were not. */
export function partsOf({ index, lines, owner }: ItemCall): readonly CallPart[] {
  const parts: { index: number; count: number; isSkipped: boolean }[] = [];
  for (const [place, line] of lines.entries()) {
    const isSkipped = owner.skips(line);
    const part = parts.at(-1);
    if (part?.isSkipped === isSkipped) part.count += 1;
    else parts.push({ index: index + place, count: 1, isSkipped });
  }
  return parts;
}

/** The items of each half. */
export function halvesOf({ index, count: all }: ItemCall): readonly CallPart[] {
  const count = Math.ceil(all / 2);
  return [
    { index, count, isSkipped: false },
    { index: index + count, count: all - count, isSkipped: false },
  ];
}

/** The record that is written before a request is sent. `attempt` counts this request and all before it. */
export function intentOf(
  call: ItemCall,
  attempt: number,
  ambiguousAttempts: number,
  index: number = call.index,
): IntentRecord {
  const { shard, load } = call;
  const share = call.shareOf(index);
  return {
    line: shard.lines[index] as number,
    offset: shard.offsets[index] as number,
    lengthBytes: shard.lengths[index] as number,
    attempt,
    ambiguousAttempts,
    inputTokens: Math.round(load.inputTokens * share), // as it is reserved
    outputTokens: Math.round(load.outputTokens * share),
    mostUsd: (call.reservation?.usd ?? 0) * share,
  };
}

/** Records the intents of a request; the lane counts it as one. */
export function recordIntents(
  call: ItemCall,
  lane: string,
  { attempt, ambiguousAttempts }: { readonly attempt: number; readonly ambiguousAttempts: number },
  whenDurable: () => void,
): void {
  const { records } = call.owner;
  const last = call.index + call.count - 1;
  let inputTokens = 0;
  for (let index = call.index; index < last; index += 1) {
    const record = intentOf(call, attempt, ambiguousAttempts, index);
    inputTokens += record.inputTokens;
    records.intentAgain(record);
  }
  if (inputTokens > 0) records.sentMore(lane, inputTokens, 0);
  records.intent(intentOf(call, attempt, ambiguousAttempts, last), lane, whenDurable);
}

/** Records the ended attempts of each item, and remembers them if the items are sent by another call. */
export function recordClosed(call: ItemCall, made: Made, isKept: boolean): void {
  const { owner, lastFailure: failure, startedWallMs } = call;
  const counts = madeOf(made);
  for (let index = call.index; index < call.index + call.count; index += 1) {
    const line = call.shard.lines[index] as number;
    const spent = call.spentOf(index);
    owner.records.closed({ ...spent, ...counts, line, failure });
    if (!isKept) continue;
    const kept: AttemptsMade = { ...counts, isInDoubt: false, spent, failure, startedWallMs };
    owner.items.made.set(line, kept);
  }
}

/**
 * What was made for the items of a call that are to be sent again in halves, because one of them may have failed all: the provider refused
 * the request, or could not answer it. Nothing of that counts against the others. Undefined for any other end, and where the provider
 * says that it refused what all have in common, such as `dimensions`: halves would only be refused again, down to each item.
 */
export function halvedOf(call: ItemCall, result: DispatchResult): Made | undefined {
  if (result.kind === "returned") return call.isHalved ? uncounted(result) : undefined;
  if (call.count === 1 || call.joinedFailures?.isRefusedForAll === true || result.outcome.status !== "failed")
    return undefined;
  const { provider_status: status = 0, retryable, code } = result.outcome.failure;
  const isRefused = (status >= 400 && status <= 499) || code === "invalid_request"; // of a function, without a status
  return retryable || isRefused ? uncounted(result.outcome) : undefined; // else at most once: it may have been answered
}

function uncounted({ attempts, ambiguousAttempts }: Pick<Made, "attempts" | "ambiguousAttempts">): Made {
  const counts = { uncounted: attempts, uncountedAmbiguous: ambiguousAttempts };
  return { attempts, ambiguousAttempts, ...counts, unusableAnswers: 0 };
}

/** Records how the items of a call ended. `whenDurable` is called once. */
export function recordOutcome(call: ItemCall, outcome: Outcome, whenDurable: () => void): void {
  const { records } = call.owner;
  if (call.count === 1) {
    records.outcome(call, outcome, whenDurable);
    return;
  }
  records.outcomes(endedItems(call, outcome), whenDurable);
}

/** One at a time: made for 256 items at once, their outcomes would outlive a collection. */
function* endedItems(call: ItemCall, outcome: Outcome): Generator<JoinedEnd> {
  for (let index = call.index; index < call.index + call.count; index += 1) {
    const item = itemOf(call, index);
    yield { item, outcome: outcomeOf(outcome, item, index - call.index) };
  }
}

/** Says which lane a call belongs in. */
interface PlacesCalls {
  place(call: ItemCall): LaneTerms;
}

/** A call for items of another one, which has ended. */
export function callAgain(
  call: ItemCall,
  { index, count }: CallPart,
  { models, loads }: { readonly models: PlacesCalls; readonly loads: ItemLoads },
): ItemCall {
  const load = count === call.count ? call.plainLoad : loads.reserved(call.shard, index, count);
  const again = new ItemCall(call.owner, call.shard, index, call, load, models.place(call), count);
  again.series = call.series;
  again.failuresInRow = call.failuresInRow;
  again.isRealtimeOnly = call.isRealtimeOnly;
  again.startedWallMs = call.startedWallMs;
  again.sentAs = call.sentAs;
  again.wasTierUnknown = call.wasTierUnknown;
  again.refusals = call.refusals;
  again.refusedRow = call.refusedRow;
  return again;
}

/** The items of a call, each in its own call, as batches need them. */
export function singlesOf(call: ItemCall, services: Parameters<typeof callAgain>[2]): readonly ItemCall[] {
  if (call.count === 1) return [call];
  return call.lines.map((_, place) =>
    callAgain(call, { index: call.index + place, count: 1, isSkipped: false }, services),
  );
}

/** Ends items that are not sent, or not again. */
export function recordUnsent(
  { owner, shard, sentAs, startedWallMs }: ItemCall,
  { index: from, count }: Pick<CallPart, "index" | "count">,
  end: UnsentEnd,
  whenDurable: () => void,
): void {
  for (let index = from; index < from + count; index += 1) {
    const unsent = { ...end, metadata: shard.metadata(index), sentAs, startedWallMs };
    owner.records.unsent(shard.lines[index] as number, shard.keyJson(index), unsent, whenDurable);
  }
}

/** An item of several, as its records need it. */
function itemOf(call: ItemCall, index: number): SentItem {
  const { shard, model, sentAs, startedWallMs } = call;
  return {
    line: shard.lines[index] as number,
    keyJson: shard.keyJson(index),
    model,
    metadata: shard.metadata(index),
    warnings: shard.warnings(index),
    spent: call.spentOf(index),
    sentAs,
    startedWallMs,
  };
}

function outcomeOf(outcome: Outcome, { spent }: SentItem, place: number): Outcome {
  if (outcome.status !== "completed" || outcome.output.type === "text") return outcome;
  const { type, values } = outcome.output;
  const value = values[place] as WrittenValue; // `ItemCall.judged` has compared the counts
  const last =
    outcome.last.body === undefined ? outcome.last : withBody(outcome.last, value, spent.inputTokens);
  return {
    status: outcome.status,
    output: { type, values: [value] },
    finish: outcome.finish,
    members: outcome.members,
    last,
    usage: outcome.usage,
    attempts: outcome.attempts,
    ambiguousAttempts: outcome.ambiguousAttempts,
  };
}

/** The body as the server would have answered a request for this item only, in OpenAI's form. */
function withBody(last: AttemptFacts, value: WrittenValue, tokens: number): AttemptFacts {
  const data = `[{"object":"embedding","index":0,"embedding":${valueText(value)}}]`;
  const usage = `{"prompt_tokens":${tokens},"total_tokens":${tokens}}`;
  const model = JSON.stringify(last.model ?? null);
  const body = Buffer.from(`{"object":"list","data":${data},"model":${model},"usage":${usage}}`);
  return { ...last, body };
}
