/**
 * What all wires of the fakes share: calls with their faults, keys, batches by workspace, pages of them, and the book of it all.
 */
import { type Behaviour, behaviourOf, type CallKind, type FakeOptions } from "./behaviour.ts";
import { chanceAt, chanceOf, durationAt } from "./chance.ts";
import type { FakeAnswer, FakeReply } from "./fake.ts";
import { type Charge, type FakeTier, Ledger, nanoUsdOf } from "./ledger.ts";
import type { Asked } from "./prompt.ts";
import { Run, type RunFault, type RunItem, type RunState } from "./run.ts";

/** A refusal in the words of a wire. */
export type Refuse = (status: number, code: string, message: string) => FakeReply;

export interface NewBatch {
  readonly id: string;
  readonly key: string;
  readonly items: readonly RunItem[];
  readonly faults?: readonly RunFault[];
  readonly windowMs?: number;
  /** More requests may be added to it. */
  readonly isOpen?: boolean;
  /** Default `batch`. */
  readonly tier?: FakeTier;
}

export class FakeAccount {
  readonly behaviour: Behaviour;
  readonly ledger: Ledger;
  readonly runs = new Map<string, Run>();
  readonly #refuse: Refuse;
  /** Batches whose requests are not all in the book. */
  readonly #open = new Set<Run>();
  #batches = 0;
  #flexAsked = 0;
  readonly #realtime: { atMs: number; count: number } = { atMs: 0, count: 0 };

  constructor(options: FakeOptions, refuse: Refuse) {
    this.behaviour = behaviourOf(options);
    this.ledger = new Ledger(() => this.settle());
    this.#refuse = refuse;
  }

  get nowMs(): number {
    return this.behaviour.nowMs();
  }

  /** Makes one call, unless its fault or its key is against it. */
  call(kind: CallKind, key: string, run: () => FakeReply): FakeAnswer {
    this.settle();
    const { calls } = this.ledger;
    const nth = (calls.get(kind) ?? 0) + 1;
    calls.set(kind, nth);
    const fault = this.behaviour.faults({ kind, nth, nowMs: this.nowMs, key });
    if (fault === "refused_connection") return fault;
    if (fault === "lost_before") return "lost";
    const { keys, apiMs } = this.behaviour;
    if (keys.size > 0 && !keys.has(key)) return this.#refuse(401, "invalid_api_key", "no such key");
    if (typeof fault === "object" && "status" in fault) {
      const { status, code = "server_error", message = "scheduled", headers = {} } = fault;
      const reply = this.#refuse(status, code, message);
      return { ...reply, headers: { ...reply.headers, ...headers }, afterMs: apiMs };
    }
    const reply = run();
    if (fault === "lost") return fault;
    const timed = { afterMs: apiMs, ...reply };
    return fault === undefined
      ? timed
      : { ...timed, tornAfterBytes: Math.floor(reply.body.length * fault.tornAfter) };
  }

  /** A new batch, or why it is refused. */
  create({
    id,
    key,
    items,
    faults = [],
    windowMs,
    isOpen = false,
    tier = "batch",
  }: NewBatch): Run | FakeReply {
    const { openMax, workspaceOf } = this.behaviour;
    const workspace = workspaceOf(key);
    const isAtWork = (run: Run): boolean => run.workspace === workspace && !run.isEndedAt(this.nowMs);
    if (this.runs.size >= openMax && [...this.runs.values()].filter(isAtWork).length >= openMax)
      return this.#refuse(429, "too_many_batches", `at most ${openMax} batches may be open`);
    this.#batches += 1;
    const run = new Run({
      id,
      nth: this.#batches,
      key,
      workspace,
      createdMs: this.nowMs,
      windowMs: windowMs ?? this.behaviour.windowMs,
      items,
      faults: faults.length > 0 ? faults : this.#tooMany(items, workspace),
      behaviour: this.behaviour,
      isOpen,
      tier,
    });
    this.runs.set(id, run);
    this.#open.add(run);
    this.ledger.batches.set(id, {
      id,
      key,
      createdMs: run.createdMs,
      items: items.length,
      cancelledMs: undefined,
      end: undefined,
      endMs: undefined,
      deletedMs: undefined,
      polls: new Map(),
    });
    return run;
  }

  /** Which number the next batch has, from 1. */
  get nextBatch(): number {
    return this.#batches + 1;
  }

  /** A batch that this key may see. Each call is a poll. */
  find(id: string, key: string): Run | undefined {
    const polls = this.ledger.batches.get(id)?.polls;
    polls?.set(key, (polls.get(key) ?? 0) + 1);
    const run = this.runs.get(id);
    return run !== undefined && this.#isVisible(run, key) ? run : undefined;
  }

  cancel(run: Run): void {
    run.cancel(this.nowMs);
    const entry = this.ledger.batches.get(run.id);
    if (entry !== undefined && run.cancelAskedMs !== undefined) entry.cancelledMs = run.cancelAskedMs;
  }

  delete(run: Run): void {
    run.deletedMs = this.nowMs;
    this.runs.delete(run.id);
    const entry = this.ledger.batches.get(run.id);
    if (entry !== undefined) entry.deletedMs = this.nowMs;
  }

  /** Puts more requests into a batch. */
  add(run: Run, items: readonly RunItem[]): void {
    run.add(items, this.nowMs);
    const entry = this.ledger.batches.get(run.id);
    if (entry !== undefined) entry.items = run.items.length;
  }

  /** What a list shows to this key, newest first. */
  listed(key: string): Run[] {
    const { listDelayMs } = this.behaviour;
    const runs = [...this.runs.values()].filter(
      (run) => this.#isVisible(run, key) && run.createdMs + listDelayMs <= this.nowMs,
    );
    return runs.reverse();
  }

  /** The state that is shown, which may have a name that no wire knows. */
  shown(run: Run): RunState | { readonly name: string } {
    const { stateAtFirst } = run.wrong;
    if (stateAtFirst !== undefined && this.nowMs < run.createdMs + stateAtFirst.forMs)
      return { name: stateAtFirst.name };
    return run.stateAt(this.nowMs);
  }

  /** Answers a request in realtime or flex with what `answer` makes of it; its time is drawn. */
  realtime(
    asked: Asked,
    tier: "realtime" | "flex",
    answer: (refused: FakeReply | undefined) => FakeReply,
  ): FakeReply {
    const { realtime, seed } = this.behaviour;
    const { times = DEFAULT_TIMES, flexTimes = DEFAULT_FLEX_TIMES, flexShedShare = 0 } = realtime;
    const before = this.ledger.charges.length;
    if (this.#isOverLimit())
      return this.#refuse(429, "rate_limit_exceeded", "requests per minute: try again in 1s");
    const chance = chanceOf(seed + before, asked.prompt);
    if (tier === "flex" && chanceAt(seed, this.#flexAsked++) < flexShedShare)
      return { ...this.#refuse(429, "resource_unavailable", "no flex capacity"), afterMs: 200 };
    const { isHold, isInvalid, failsWith = isInvalid ? 400 : undefined } = asked.fate;
    const refused = isHold
      ? this.#refuse(429, "insufficient_quota", "no credit is left")
      : failsWith === undefined
        ? undefined
        : this.#refuse(failsWith, codeOf(failsWith), `the prompt asked for ${failsWith}`);
    this.charge(asked, { tier, status: refused?.status ?? 200 });
    const afterMs = Math.round(durationAt(tier === "flex" ? flexTimes : times, chance));
    return { ...answer(refused), afterMs };
  }

  charge(
    asked: Asked,
    {
      tier,
      status,
      id,
      batch,
      atMs = this.nowMs,
    }: {
      readonly tier: FakeTier;
      readonly status: number;
      readonly id?: string;
      readonly batch?: string;
      readonly atMs?: number;
    },
  ): number {
    const { price, flexThousandths, batchThousandths, deferredThousandths } = this.behaviour;
    const factors = { flex: flexThousandths, batch: batchThousandths, deferred: deferredThousandths };
    const factor = { realtime: 1_000, ...factors }[tier];
    const { model, prompt, inputTokens, outputTokens } = asked;
    const nanoUsd = status === 200 ? nanoUsdOf(price(model), asked, factor) : 0;
    const charge: Charge = {
      prompt,
      id,
      batch,
      model,
      tier,
      status,
      inputTokens,
      outputTokens,
      nanoUsd,
      atMs,
    };
    this.ledger.charges.push(charge);
    return nanoUsd;
  }

  /** Books what was finished and what ended meanwhile. */
  settle(): void {
    const { nowMs } = this;
    for (const run of this.#open) {
      const items = run.finishedFrom(run.booked, nowMs);
      for (const item of items) {
        const status = this.statusOf(run, item);
        if (status === 200) run.good += 1;
        run.billedNanoUsd += this.charge(item, {
          tier: run.tier,
          status,
          id: item.id,
          batch: run.id,
          atMs: run.finishMsOf(item),
        });
      }
      run.booked += items.length;
      if (!run.isEndedAt(nowMs)) continue;
      this.#open.delete(run);
      const entry = this.ledger.batches.get(run.id);
      if (entry !== undefined) Object.assign(entry, { end: run.stateAt(nowMs), endMs: run.endMs });
    }
  }

  /** What a finished request of a batch was answered with. */
  statusOf(run: Run, { fate }: RunItem): number {
    return run.wrong.allFailWith ?? (fate.isHold ? 429 : (fate.failsWith ?? (fate.isInvalid ? 400 : 200)));
  }

  #isVisible(run: Run, key: string): boolean {
    const { keptMs, workspaceOf } = this.behaviour;
    return run.workspace === workspaceOf(key) && this.nowMs < run.createdMs + keptMs;
  }

  #tooMany(items: readonly RunItem[], workspace: string): readonly RunFault[] {
    const { enqueuedTokensMax, failedHoldMs } = this.behaviour;
    if (enqueuedTokensMax === Number.POSITIVE_INFINITY) return [];
    const model = items[0]?.model ?? "";
    let enqueued = items.reduce((sum, { inputTokens }) => sum + inputTokens, 0);
    for (const run of this.runs.values()) {
      const heldMs = run.isFailing ? run.endMs + failedHoldMs : run.endMs;
      if (run.workspace === workspace && run.items[0]?.model === model && this.nowMs < heldMs)
        enqueued += run.inputTokens;
    }
    if (enqueued <= enqueuedTokensMax) return [];
    const message = `Enqueued token limit reached for ${model}. Limit: ${enqueuedTokensMax} enqueued tokens.`;
    return [{ code: "token_limit_exceeded", message, line: undefined }];
  }

  #isOverLimit(): boolean {
    const { requestsPerMinute = Number.POSITIVE_INFINITY } = this.behaviour.realtime;
    if (requestsPerMinute === Number.POSITIVE_INFINITY) return false;
    const bucket = this.#realtime;
    const refilled = ((this.nowMs - bucket.atMs) / 60_000) * requestsPerMinute;
    const burst = Math.max(1, requestsPerMinute / 60);
    const used = Math.max(0, bucket.count - refilled);
    bucket.atMs = this.nowMs;
    bucket.count = used;
    if (used + 1 > burst) return true;
    bucket.count = used + 1;
    return false;
  }
}

const DEFAULT_TIMES = { p50: 800, p90: 2_000, p99: 6_000 };
const DEFAULT_FLEX_TIMES = { p50: 2_800, p90: 9_000, p99: 30_000 };

/** The name that an error of a request has. */
export function codeOf(status: number): string {
  return status >= 500 ? "server_error" : status === 429 ? "rate_limit_exceeded" : "invalid_request_error";
}
