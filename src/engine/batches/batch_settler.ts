/**
 * The items of a batch as their results arrive: each ends, or goes back to its lane.
 *
 *   with the batch --answered, or refused for its own sake--> ended: record, line and money
 *        |--does not fit its schema, and may be answered again--> back
 *        |--unfinished, a failure that is not its own--> back: sent again, in a batch at most `REQUEUES_MAX` times
 *        |--refused because the account has no money--> back, not counted: one of them in realtime, to ask whether it has
 *        |--nobody knows whether it was done (rescued, gone, no result though the provider has finished more than it shows)
 *        |        --> back, with the most that it may have cost in doubt
 *        \--its run has ended meanwhile--> expired or cancelled; what was paid for is kept all the same
 *
 * An attempt in a batch that failed never counts against its item: realtime finds out what is its own.
 */
import { type AttemptResult, answered, withCount } from "../../dispatch/attempt.ts";
import { completed, failed, tallyOf } from "../../dispatch/tally.ts";
import type { BatchResult, RemoteBatch } from "../../providers/batches/batch_wire.ts";
import type { HeaderBag, Provider, WireAnswer } from "../../providers/provider.ts";
import { LineSet } from "../../work/line_set.ts";
import { NO_USAGE, type Outcome, type Usage } from "../../work/outcome.ts";
import type { ItemMoney } from "../items/item_money.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import { endOf } from "../items/run_stopped.ts";
import { addDoubt, addSpent } from "../journal/item_cost.ts";
import { type AttemptFailure, NOTHING_SPENT, type Spent } from "../journal/journal.ts";
import { checkFor, fitted, UnfitAnswer } from "../schemas/answer_fit.ts";
import type { BatchItem, BatchItems } from "./batch_lines.ts";
import type { BatchMoney } from "./batch_money.ts";
import type { KeptBatch } from "./kept_batch.ts";

/** Batches that an item is in at most; then it is sent in realtime. */
const REQUEUES_MAX = 2;
/** Codes of requests that their batch did not come to. */
const NEVER_RUN = /expired|cancell?ed/i;
const NEVER_MADE = {
  attempts: 0,
  uncounted: 0,
  ambiguousAttempts: 0,
  uncountedAmbiguous: 0,
  unusableAnswers: 0,
  spent: NOTHING_SPENT,
};

/** What settling needs besides the batch. */
export interface SettlingServices {
  readonly provider: Provider;
  readonly money: Pick<ItemMoney, "spentInBatch" | "mostInBatchUsd">;
  readonly held: BatchMoney;
  /** The answer of an item was checked against a schema; see `ItemLoads.checked`. */
  checked(model: string, answer: { readonly isFirst: boolean; readonly isAgain: boolean }): void;
  /** An answer says so of its tokens. */
  answered(usage: Usage): void;
  /** Brings items to their lane again, which are measured anew; resolves when they are there. */
  sendAgain(owner: ItemOwner, items: readonly BatchItem[]): Promise<void>;
}

/** One for a batch and the run whose items it has. */
export class BatchSettler {
  readonly #kept: KeptBatch;
  readonly #owner: ItemOwner;
  readonly #items: BatchItems;
  readonly #services: SettlingServices;
  /** Places whose items are neither settled nor given back. */
  readonly #left = new LineSet(0);
  /** Places whose results say that they were not done, or not for money. */
  readonly #explained = new LineSet(0);
  /** Of these, those that were refused because the account has no money. */
  readonly #unpaid = new LineSet(0);
  /** Places in doubt: their money is settled. */
  readonly #doubted = new LineSet(0);
  #staged = 0;
  #waiter: (() => void) | undefined;

  constructor(kept: KeptBatch, owner: ItemOwner, items: BatchItems, services: SettlingServices) {
    this.#kept = kept;
    this.#owner = owner;
    this.#items = items;
    this.#services = services;
    for (let place = 0; place < items.items; place += 1)
      if (!owner.items.done.has(items.lineOf(place))) this.#left.add(place);
  }

  /** Items that are with the batch. */
  get left(): number {
    return this.#left.size;
  }

  /** The lines of items that are with the batch. */
  *leftLines(): Generator<number> {
    for (const place of this.#places()) yield this.#items.lineOf(place);
  }

  /** A result arrived; of one that was settled nothing changes. */
  take(place: number, result: Exclude<BatchResult, { is: "unreadable" }>): void {
    if (!this.#left.has(place)) return;
    if (result.is === "unfinished") {
      if (NEVER_RUN.test(result.code)) this.#explained.add(place);
      return;
    }
    const item = this.#items.at(place);
    const { status } = result;
    const wallMs = this.#kept.clock.wallMs();
    const decoded = this.#services.provider.decode(new ResultAnswer(result, wallMs));
    const latencyMs = Math.max(0, wallMs - (this.#kept.record.createdWallMs ?? wallMs));
    const { inputTokens } = item;
    const read = answered(decoded, { status, learnt: undefined, latencyMs, inputTokens });
    const answer = withCount(read, item.answers);
    this.#judge(place, item, this.#checked(item, answer));
  }

  /** The provider refused the item's line before the batch ran. */
  refused(place: number, code: string): void {
    if (!this.#left.has(place)) return;
    const { name } = this.#services.provider.settings;
    const message = `${name} refused its line in a batch (${code})`;
    this.#end(place, this.#items.at(place), {
      ...{ class: "permanent", code: "invalid_request", scope: "item", message, status: 400, latencyMs: 0 },
    });
  }

  /** Resolves when what was settled is durable; rejects when the batch is left. */
  settled(): Promise<void> {
    const { left } = this.#kept;
    if (this.#staged === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const onLeft = (): void => reject(left.reason);
      left.addEventListener("abort", onLeft, { once: true });
      this.#waiter = () => {
        left.removeEventListener("abort", onLeft);
        resolve();
      };
      if (left.aborted) onLeft();
    });
  }

  /** What is left goes back: it has no result, or one that is not its end. */
  async returnRest(batch: Pick<RemoteBatch, "end" | "faults" | "counts">): Promise<void> {
    const missing = this.#places().filter((place) => !this.#explained.has(place));
    if (mayHaveFinished(batch, this.#items.items - missing.length)) this.#doubt(missing);
    const { end, faults } = batch;
    const isUnexplained =
      end === "failed" && faults.every(({ is, line }) => is === "batch" && line === undefined);
    await this.#return(isUnexplained ? "realtime" : "counted");
  }

  /** None of it was done, and it may be in a batch again. */
  returnUnsent(): Promise<void> {
    return this.#return("again");
  }

  /** Nobody knows what the batch did with what is left, or it cannot be waited for: it goes back, and its cost is in doubt. */
  async doubtRest(): Promise<void> {
    this.#doubt(this.#places());
    await this.#return("realtime");
  }

  #doubt(places: readonly number[]): void {
    for (const place of places) {
      const item = this.#items.at(place);
      const mostUsd = this.#mostUsd(item);
      const made = this.#madeOf(item);
      const spent = addDoubt(made.spent, mostUsd);
      this.#close(item, { ...made, ambiguousAttempts: made.ambiguousAttempts + 1, spent }, true);
      this.#services.held.settle(mostUsd, { billedUsd: 0, ambiguousUsd: mostUsd });
      this.#doubted.add(place);
    }
  }

  #judge(place: number, item: BatchItem, result: AttemptResult): void {
    if (result.usage?.isEstimated === false) this.#services.answered(result.usage);
    const isItems =
      (result.class === "permanent" && result.scope === "item") ||
      (result.class === "unfit" && !this.#mayAskAgain(item, result));
    if (result.class === "success" || isItems) {
      this.#end(place, item, result);
      return;
    }
    this.#explained.add(place);
    if (result.code === "quota_exceeded") this.#unpaid.add(place);
    const last = this.#spentBy(item, result);
    const isUnfit = result.class === "unfit";
    if (last.billedUsd + last.ambiguousUsd === 0 && !isUnfit) return; // as if it had not been sent
    const made = this.#madeOf(item);
    const ambiguousAttempts = made.ambiguousAttempts + (last.ambiguousUsd > 0 ? 1 : 0);
    const unusableAnswers = made.unusableAnswers + (isUnfit ? 1 : 0);
    const spent = addSpent(made.spent, last);
    const failure = isUnfit ? { code: "schema_unmet" as const, httpStatus: result.status ?? 0 } : undefined;
    this.#close(item, { ...made, ambiguousAttempts, unusableAnswers, spent }, last.ambiguousUsd > 0, failure);
    this.#services.held.settle(0, last);
    if (isUnfit) this.#owner.settings.fit.kept.keep(item.line, new UnfitAnswer(result));
  }

  /** Of chats only. */
  #checkOf({ schema, line }: BatchItem): ReturnType<typeof checkFor> {
    return this.#kept.record.endpoint === "chat"
      ? checkFor(this.#owner.settings.fit, schema, line)
      : undefined;
  }

  #checked(item: BatchItem, answer: AttemptResult): AttemptResult {
    const check = this.#checkOf(item);
    const judged = check === undefined ? answer : fitted(answer, check, this.#services.provider);
    if (check === undefined || (judged.class !== "success" && judged.class !== "unfit")) return judged;
    const isAgain = judged.class === "unfit" && this.#mayAskAgain(item, judged);
    const isFirst = this.#madeOf(item).unusableAnswers === 0;
    this.#services.checked(this.#kept.record.model, { isFirst, isAgain });
    return judged;
  }

  /** In realtime or in another batch, with the answer and what does not fit. */
  #mayAskAgain(item: BatchItem, result: AttemptResult): boolean {
    const { answersMax } = this.#owner.settings.fit;
    return result.isFinal !== true && this.#madeOf(item).unusableAnswers + 1 < answersMax;
  }

  #end(place: number, item: BatchItem, result: AttemptResult): void {
    const { held, provider } = this.#services;
    const owner = this.#owner;
    const made = this.#madeOf(item);
    const last = this.#spentBy(item, result);
    const hasTwin = this.#kept.record.hasTwin === true;
    const twice = hasTwin ? addDoubt(last, this.#mostUsd(item)) : last;
    const tally = tallyOf(made);
    tally.attempts += hasTwin ? 2 : 1;
    if (hasTwin) tally.ambiguousAttempts += 1;
    tally.usage = result.usage ?? NO_USAGE;
    const isLate = owner.phase === "expired";
    const facts = {
      ...result,
      servedTier: this.#tierOf(result),
      ...(isLate ? { isLate } : {}),
    };
    const unfitAnswer = result.class === "unfit" ? result.text : owner.settings.fit.kept.get(item.line)?.text;
    const ended =
      result.class === "success"
        ? completed(tally, facts)
        : failed({ provider, unfitAnswer }, tally, result.code ?? "provider_error", facts, {
            ambiguousMax: 1,
          });
    if (ended.kind !== "outcome") return;
    this.#left.delete(place);
    held.settle(this.#mostUsd(item), twice);
    this.#stage(item, addSpent(made.spent, twice), ended.outcome, facts.servedTier);
  }

  #stage(
    { line, keyJson, metadata, warnings }: BatchItem,
    spent: Spent,
    outcome: Outcome,
    tier: string,
  ): void {
    const { model, batchId, createdWallMs: startedWallMs, kind: lane = "batch" } = this.#kept.record;
    const sentAs = {
      ...{ lane, tier },
      ...(lane === "deferred" ? { tierAsked: lane } : {}),
      ...(batchId === undefined ? {} : { batch: batchId }),
    };
    const item = { line, keyJson, model, metadata, warnings, spent, sentAs, startedWallMs };
    this.#staged += 1;
    this.#owner.settings.fit.kept.remove(line);
    this.#owner.records.outcome(item, outcome, () => this.#durable());
  }

  #durable(): void {
    this.#staged -= 1;
    this.#owner.changed();
    if (this.#staged > 0) return;
    this.#waiter?.();
    this.#waiter = undefined;
  }

  /** Gives back what is left, to realtime only, or to batches again, counted or not. */
  async #return(to: "realtime" | "again" | "counted"): Promise<void> {
    const owner = this.#owner;
    const places = this.#places();
    if (this.#kept.record.hasTwin === true) this.#doubt(places.filter((place) => !this.#doubted.has(place)));
    const items = places.map((place) => this.#items.at(place));
    for (const [index, place] of places.entries()) {
      const mostUsd = this.#doubted.has(place) ? 0 : this.#mostUsd(items[index] as BatchItem);
      this.#services.held.settle(mostUsd, { billedUsd: 0, ambiguousUsd: 0 });
    }
    const { phase } = owner;
    if (phase === "expired" || phase === "cancelled" || phase === "cancelling" || phase === "giving_up")
      return this.#endRest(places, items, phase === "cancelling" ? "cancelled" : phase);
    let isAsking = false;
    for (const [index, place] of places.entries()) {
      const { line, requeues } = items[index] as BatchItem;
      const isUnpaid = this.#unpaid.has(place);
      const isProbe: boolean = isUnpaid && !isAsking;
      isAsking ||= isProbe;
      const isCounted = to === "counted" && !isUnpaid;
      if (to === "realtime" || isProbe || (isCounted && requeues + 1 >= REQUEUES_MAX))
        owner.items.notBatched.add(line);
      else owner.items.requeues.set(line, requeues + (isCounted ? 1 : 0));
      this.#left.delete(place);
    }
    if (!owner.isOpen || items.length === 0) return;
    await this.#services.sendAgain(
      owner,
      items.sort((one, other) => one.line - other.line),
    );
  }

  /** What is left ends as its run has. */
  async #endRest(
    places: readonly number[],
    items: readonly BatchItem[],
    status: Parameters<typeof endOf>[1],
  ): Promise<void> {
    const owner = this.#owner;
    for (const place of places) this.#left.delete(place);
    for (const { line, keyJson, metadata } of items) {
      this.#staged += 1;
      const end = { ...endOf(owner, status, this.#kept.record.model), metadata };
      owner.records.unsent(line, keyJson, end, () => this.#durable());
    }
    await this.settled();
  }

  /** Records what attempts took that did not end their item; none of it counts against it. */
  #close(item: BatchItem, made: typeof NEVER_MADE, isAmbiguous: boolean, failure?: AttemptFailure): void {
    const { records, items } = this.#owner;
    const counts = {
      attempts: made.attempts + 1,
      uncounted: made.uncounted + 1,
      ambiguousAttempts: made.ambiguousAttempts,
      uncountedAmbiguous: made.uncountedAmbiguous + (isAmbiguous ? 1 : 0),
      unusableAnswers: made.unusableAnswers,
    };
    const { spent } = made;
    records.closed({ ...spent, ...counts, line: item.line, failure });
    items.made.set(item.line, { ...counts, spent, failure, isInDoubt: false });
  }

  #madeOf({ line }: BatchItem): typeof NEVER_MADE {
    return this.#owner.items.made.get(line) ?? NEVER_MADE;
  }

  #spentBy(item: BatchItem, result: AttemptResult): Spent {
    const { model } = this.#kept.record;
    const served = { ...result, servedTier: this.#tierOf(result) };
    const attempt = { model, line: item.line, result: served, mostUsd: this.#mostUsd(item) };
    return this.#services.money.spentInBatch(this.#owner.settings, attempt);
  }

  /** What decides the price: of a batch it is the same for all answers, also where one names another tier; a deferred one may say. */
  #tierOf({ servedTier }: AttemptResult): string {
    const { kind = "batch" } = this.#kept.record;
    return kind === "batch" ? kind : (servedTier ?? kind);
  }

  #mostUsd({ most }: BatchItem): number {
    const { model, kind = "batch" } = this.#kept.record;
    return this.#services.money.mostInBatchUsd(model, most, kind) ?? 0;
  }

  #places(): number[] {
    const places: number[] = [];
    for (let place = 0; place < this.#items.items; place += 1) if (this.#left.has(place)) places.push(place);
    return places;
  }
}

/** The answer of a result; its body stays unmade until it is read. */
class ResultAnswer implements WireAnswer {
  readonly status: number;
  readonly headers: HeaderBag;
  readonly value: unknown;
  readonly wallMs: number;
  readonly #result: AnsweredResult;

  constructor(result: AnsweredResult, wallMs: number) {
    this.status = result.status;
    this.headers = result.headers;
    this.value = result.value;
    this.wallMs = wallMs;
    this.#result = result;
  }

  get body(): Uint8Array {
    return this.#result.body;
  }
}

type AnsweredResult = Extract<BatchResult, { is: "answered" }>;

/**
 * Whether a batch may have finished more of its requests than the `shown` that have a result: what it finished is paid for. One that
 * has failed did so before it ran, unless its counts say otherwise.
 */
function mayHaveFinished({ end, counts }: Pick<RemoteBatch, "end" | "counts">, shown: number): boolean {
  const { succeeded, failed } = counts;
  if (succeeded === undefined) return end !== "failed";
  return succeeded + (failed ?? 0) > shown;
}
