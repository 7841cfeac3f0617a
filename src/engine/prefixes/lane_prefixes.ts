/**
 * A lane's use of its provider's prompt cache: one request with a shared prefix goes ahead, the others follow its answer.
 *
 *   money is reserved -> chosen: plain, the first (it primes) or a follower -> request with or without a mark -> answered
 *   a shard whose prefix is primed -> held: the lane goes on with other shards, at most for three mean answers or 60 s, and never
 *                                     beyond the shard's latest start
 *
 * Hot path: a comparison an item without a shared prefix of some length; about 0.5 us for others, most of it for the mark.
 */
import type { Clock } from "../../clock.ts";
import { namesCacheKey, withCacheControl, withCacheKey } from "../../providers/cache_marks.ts";
import type { AnswerPace } from "../../queue/answer_pace.ts";
import { PrefixStates, type PrefixStep } from "../../queue/prefixes/prefix_states.ts";
import type { ShardTicket } from "../items/backlog.ts";
import type { CacheUse } from "../items/cache_use.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { CacheRules } from "./cache_rules.ts";

/** The mean is that of the quickest at first: answers that take long arrive last. */
const HOLD_ANSWERS = 3;
const HOLD_MS_MAX = 60_000;
/** Before any answer was timed. */
const HOLD_MS_FIRST = 15_000;
const GAP_WEIGHT = 1 / 16;

/** What it needs of its lane. */
export interface LaneOfPrefixes {
  readonly clock: Clock;
  readonly pace: AnswerPace;
  pump(): void;
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

  /** Whether the items of a shard wait for the first answer with their prefix. */
  isHeld(ticket: ShardTicket): boolean {
    if (!this.#states.isPriming || ticket.shard.group.prefixTokens === 0) return false;
    const { clock } = this.#lane();
    const untilMs = this.#states.heldUntilMs(keyOf(ticket), clock.nowMs());
    return untilMs !== undefined && untilMs < ticket.deadlineMs - ticket.needMs;
  }

  /** An attempt has money, and is sent if limits allow. */
  chosen(call: ItemCall): void {
    const { shard, index } = call;
    const tokens = shard.group.prefixTokens;
    if (tokens === 0 || call.isSecond || call.cacheUse !== undefined) return;
    const { clock, pace, pump } = this.#lane();
    const terms = this.#rules.of(call, clock.wallMs());
    if (terms === undefined || tokens < terms.tokensMin) return;
    const nowMs = clock.nowMs();
    const key = keyOf(call);
    const holdMs = pace.hasAnswered ? Math.min(HOLD_ANSWERS * pace.itemMs, HOLD_MS_MAX) : HOLD_MS_FIRST;
    const gapMs = Math.max(this.#gap(nowMs), pace.hasAnswered ? pace.itemMs : 0);
    const step = this.#states.next(
      { key, tokens, followers: shard.count - 1 - index, gapMs, holdMs },
      terms,
      nowMs,
    );
    if (step.is === "prime") clock.timer(holdMs + 1, pump);
    const body = this.#marks(call, step);
    if (step.is === "plain" && body === undefined) return;
    call.cacheUse = {
      body: body ?? ((plain) => plain),
      answered: (usage) => {
        if (step.is !== "plain") this.#states.answered(key, step.is, terms, usage);
      },
      freed: () => {
        if (step.is === "prime") this.#states.failed(key);
      },
    };
  }

  /** What a request says of the cache; undefined for nothing. */
  #marks({ provider, shard }: ItemCall, step: PrefixStep): CacheUse["body"] | undefined {
    const { name, protocol } = provider.settings;
    if (protocol === "anthropic")
      return step.is === "plain" ? undefined : (body) => withCacheControl(body, "5m");
    if (protocol !== "openai" || !this.#rules.settings.cacheKeys.has(name)) return undefined;
    const key = `perigee-${shard.group.prefixHash.toString(36)}`;
    return (body) => (namesCacheKey(body) ? body : withCacheKey(body, key));
  }

  #gap(nowMs: number): number {
    if (this.#lastMs !== undefined) this.#gapMs += (nowMs - this.#lastMs - this.#gapMs) * GAP_WEIGHT;
    this.#lastMs = nowMs;
    return this.#gapMs;
  }
}

function keyOf({ shard }: Pick<ItemCall, "shard">): string {
  return `${shard.group.prefixHash} ${shard.model}`;
}
