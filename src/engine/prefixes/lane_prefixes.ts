/**
 * A lane's use of its provider's prompt cache: one request with a shared prefix goes ahead, the others follow its answer.
 *
 *   money is reserved -> chosen: plain, the first (it primes) or a follower -> request with or without a mark -> answered
 *   a shard whose prefix is primed -> held: the lane goes on with other shards, at most for three mean answers or a fifth of the
 *                                     cache's life, and for a quarter of the time that its deadline leaves
 *
 * A request whose prefix may be written for an hour has twice its input reserved; where no cap has so much, it asks for nothing.
 *
 * Hot path: a comparison an item without a shared prefix; about 0.5 us for others, most of it for the mark.
 */
import type { Clock } from "../../clock.ts";
import { type AnswerPace, ITEM_MS_START } from "../../queue/answer_pace.ts";
import type { CacheLife, CacheTerms } from "../../queue/prefixes/cache_terms.ts";
import { PrefixStates, type PrefixStep } from "../../queue/prefixes/prefix_states.ts";
import type { HeldWork } from "../items/cache_use.ts";
import type { ItemCall } from "../items/item_call.ts";
import { type CacheRules, HOUR_MS } from "./cache_rules.ts";

/** The mean is that of the quickest at first: answers that take long arrive last. */
const HOLD_ANSWERS = 3;
/** Of a cache's life. */
const HOLD_LIFE_SHARE = 0.2;
/** Of the time before a deadline that nothing else needs: other prefixes want some of it, too. */
const HOLD_SLACK_SHARE = 0.25;
/** Before any answer was timed. */
const HOLD_MS_FIRST = 15_000;
const GAP_WEIGHT = 1 / 16;

/** What it needs of its lane. */
export interface LaneOfPrefixes {
  readonly clock: Clock;
  readonly pace: AnswerPace;
  pump(): void;
  /** Milliseconds that the lane needs for what waits in it and is due by a deadline. */
  drainMs(deadlineMs: number): number;
  /** See `ItemMoney.raiseForHour`. */
  raiseForHour(call: ItemCall): boolean;
}

/** One for a lane. */
export class LanePrefixes {
  readonly #rules: CacheRules;
  readonly #lane: () => LaneOfPrefixes;
  readonly #states = new PrefixStates();
  /** Moving mean of the milliseconds between two requests with long prefixes. */
  #gapMs = 0;
  #lastMs: number | undefined;

  /** `lane` is called when there is something to choose. */
  constructor(rules: CacheRules, lane: () => LaneOfPrefixes) {
    this.#rules = rules;
    this.#lane = lane;
  }

  /** Whether anything may be held now. */
  get isHolding(): boolean {
    return this.#states.isPriming;
  }

  /** Whether an item, or those of a shard, wait for the first answer with their prefix, or with their system instruction. */
  isHeld({ shard, deadlineMs, needMs = 0 }: HeldWork): boolean {
    const { shared } = shard.group;
    if (!this.isHolding || shared === undefined) return false;
    const nowMs = this.#lane().clock.nowMs();
    const untilMs = (hash: number | undefined): number =>
      hash === undefined ? 0 : (this.#states.heldUntilMs(keyOf(hash, shard.model), nowMs) ?? 0);
    const until = Math.max(untilMs(shared.hash), untilMs(shared.head?.hash));
    return until > 0 && until < deadlineMs - needMs; // its deadline may be another than that of the first
  }

  /** An attempt has money, and is sent if limits allow. */
  chosen(call: ItemCall): void {
    const { shard } = call;
    const { shared } = shard.group;
    if (shared === undefined || call.isSecond || call.cacheUse !== undefined) return;
    const { clock, pump, raiseForHour } = this.#lane();
    const terms = this.#rules.of(call, clock.wallMs());
    if (terms === undefined || shared.tokens < terms.tokensMin) return;
    const nowMs = clock.nowMs();
    const gapMs = this.#gap(nowMs);
    const key = keyOf(shared.hash, shard.model);
    const step = this.#next(key, shared.tokens, call, { terms, nowMs, gapMs });
    const head = step.is === "read" ? undefined : shared.head; // who reads all of it reads its head
    const headKey = head === undefined ? key : keyOf(head.hash, shard.model);
    const headStep =
      head === undefined ? step : this.#next(headKey, head.tokens, call, { terms, nowMs, gapMs });
    const failed = (): void => {
      if (step.is === "prime") this.#states.failed(key);
      if (headStep.is === "prime") this.#states.failed(headKey);
    };
    if (terms.isAsked && (isHour(step) || isHour(headStep)) && !raiseForHour(call)) {
      failed();
      return;
    }
    for (const one of [step, headStep]) if (one.is === "prime") clock.timer(one.holdMs + 1, pump);
    const marked = step.is === "plain" ? { ...shared, parts: 0 } : shared;
    const body = this.#rules.marksOf(call.provider, marked, step.is === "plain" ? headStep : step);
    if (step.is === "plain" && headStep.is === "plain" && body === undefined) return;
    call.cacheUse = {
      body: body ?? ((plain) => plain),
      answered: (usage) => {
        if (step.is !== "plain") this.#states.answered(key, step.is, terms, usage);
        if (headStep.is !== "plain" && headStep !== step)
          this.#states.answered(headKey, headStep.is, terms, usage, step.is === "plain");
      },
      freed: failed,
    };
  }

  /** What a request does with a prefix of so many tokens. */
  #next(
    key: string,
    tokens: number,
    call: ItemCall,
    { terms, nowMs, gapMs }: { readonly terms: CacheTerms; readonly nowMs: number; readonly gapMs: number },
  ): PrefixStep {
    const { pace } = this.#lane();
    const { shard, index } = call;
    // To wait for an automatic cache costs nothing, also where others are in another shard, or before it in this one.
    const followers = terms.isAsked ? shard.count - 1 - index : shard.count;
    return this.#states.next(
      {
        ...{ key, tokens, followers },
        gapMs: Math.max(gapMs, isTimed(pace) ? pace.itemMs : 0),
        holdMs: (life) => this.#holdMs(life, call, nowMs),
      },
      terms,
      nowMs,
    );
  }

  /** For how long others wait, if a request primes. */
  #holdMs({ ttlMs }: CacheLife, { deadlineMs }: ItemCall, nowMs: number): number {
    const { pace, drainMs } = this.#lane();
    const longestMs = ttlMs * HOLD_LIFE_SHARE;
    const answersMs = isTimed(pace) ? HOLD_ANSWERS * pace.itemMs : HOLD_MS_FIRST;
    const holdMs = Math.min(answersMs, longestMs);
    if (deadlineMs === Number.POSITIVE_INFINITY) return holdMs;
    const slackMs = deadlineMs - nowMs - drainMs(deadlineMs) - pace.itemMs;
    return Math.max(0, Math.min(holdMs, slackMs * HOLD_SLACK_SHARE));
  }

  #gap(nowMs: number): number {
    if (this.#lastMs !== undefined) this.#gapMs += (nowMs - this.#lastMs - this.#gapMs) * GAP_WEIGHT;
    this.#lastMs = nowMs;
    return this.#gapMs;
  }
}

/** Whether answers were timed, in this process or in an earlier one. */
function isTimed({ hasAnswered, itemMs }: AnswerPace): boolean {
  return hasAnswered || itemMs !== ITEM_MS_START;
}

function isHour(step: PrefixStep): boolean {
  return step.is !== "plain" && step.life.ttlMs >= HOUR_MS;
}

function keyOf(hash: number, model: string): string {
  return `${hash} ${model}`;
}
