/**
 * The engine of one partition over a modelled database: this code's scheduler, limits and draws, with modelled commits and answers.
 *
 *   item: waiting (Scheduler) -> admitted (LaneLimits) -> intent committed -> sent -> answered -> outcome committed
 *
 * One transaction at a time: what is staged while one is under way is in the next one, as in `pg_commit.ts`. Not modelled: projects' shares, prices, retries,
 * prefixes, hedges, what workers know of lanes; every request is answered.
 */

import { LimitDraws } from "../../src/engine/limits/limit_draws.ts";
import type { Run } from "../../src/engine/runs/run.ts";
import { LaneLimits, type Permit } from "../../src/limits/limits.ts";
import type { LimitPool } from "../../src/limits/shared/limit_pool.ts";
import { type LaneTicket, Scheduler } from "../../src/queue/scheduler.ts";
import { RENEW_MS } from "../../src/store/postgres/pg_partition.ts";
import * as costs from "./costs.ts";
import type { ModelledSession } from "./modelled_server.ts";
import type { Tallies } from "./tallies.ts";
import type { VirtualTime } from "./virtual_time.ts";

export interface EngineTerms {
  readonly providers: readonly string[];
  /** Requests a minute of each provider, for the whole fleet. */
  readonly requestsPerMinute: number;
  readonly inFlightMax: number;
  /** The mean time of an answer. */
  readonly answerMs: number;
}

export interface EnginePlace {
  readonly time: VirtualTime;
  readonly session: ModelledSession;
  readonly pool: LimitPool;
  readonly part: number;
  /** Renews the lease; false when another owner has the partition. */
  readonly renew: () => boolean;
  readonly onLost: () => void;
  readonly tallies: Tallies;
}

interface ModelledTicket extends LaneTicket {
  left: number;
  readonly onItem: () => void;
}

interface ModelledLane {
  readonly key: string;
  readonly limits: LaneLimits;
  wakesAtMs: number;
}

interface StagedGroup {
  intents: (() => void)[];
  answers: (() => void)[];
  posts: (() => void)[];
}

const TICKET_ITEMS = 64;
const LOAD = { inputTokens: 150, outputTokens: 128 };
const USED = { inputTokens: 150, outputTokens: 75 };
const TOKENS_A_REQUEST = 300;
const MINUTE_MS = 60_000;

export class ModelledEngine {
  readonly #place: EnginePlace;
  readonly #terms: EngineTerms;
  readonly #scheduler = new Scheduler<ModelledTicket>();
  readonly #lanes: readonly ModelledLane[];
  readonly #draws: LimitDraws;
  #staged = emptyGroup();
  #isCommitting = false;
  #isClosed = false;
  #renewals = 0;

  constructor(place: EnginePlace, terms: EngineTerms) {
    this.#place = place;
    this.#terms = terms;
    const { clock } = place.time;
    const pumpAll = (): void => this.#pumpAll();
    this.#draws = new LimitDraws({ clock, pool: place.pool, pumpAll, onFacts: () => undefined });
    this.#lanes = terms.providers.map((provider) => this.#lane(provider));
    this.#renewLater();
  }

  /** Items that wait. */
  get waiting(): number {
    return this.#scheduler.waiting.items;
  }

  /** The lines of a shard, each third to another provider. */
  run(lines: number, slaMs: number): Pick<Run, "finished" | "look" | "stop"> {
    let left = lines;
    let end: (summary: Awaited<Run["finished"]>) => void = () => undefined;
    const finished = new Promise<Awaited<Run["finished"]>>((resolve) => {
      end = resolve;
    });
    const onItem = (): void => {
      left -= 1;
      if (left === 0) this.#place.time.settle(end, summaryOf(lines));
    };
    for (let from = 0, number = 0; from < lines; from += TICKET_ITEMS, number += 1)
      this.#add(number, Math.min(TICKET_ITEMS, lines - from), slaMs, onItem);
    this.#pumpAll();
    return { finished, look: () => progressOf(lines, lines - left), stop: () => undefined };
  }

  /** Accepts a task of one item, and calls back when it is durable. */
  post(number: number, slaMs: number, onAccepted: () => void): void {
    this.#staged.posts.push(() => {
      onAccepted();
      this.#add(number, 1, slaMs, () => undefined);
      this.#pumpAll();
    });
    this.#commitSoon();
  }

  close(): void {
    this.#isClosed = true;
    this.#draws.close();
  }

  #lane(provider: string): ModelledLane {
    const { time } = this.#place;
    const { requestsPerMinute, inFlightMax } = this.#terms;
    const common = { nowMs: time.nowMs, random: time.random, inFlightMax };
    const tokensPerMinute = requestsPerMinute * TOKENS_A_REQUEST;
    const shared = new LaneLimits({
      ...{ ...common, inFlightStart: inFlightMax, settings: { requestsPerMinute, tokensPerMinute } },
      drawn: this.#draws.of(provider),
    });
    const drawn = this.#draws.of(`${provider} family`);
    return {
      key: provider,
      limits: new LaneLimits({ ...common, settings: {}, shared, drawn }),
      wakesAtMs: 0,
    };
  }

  #add(number: number, items: number, slaMs: number, onItem: () => void): void {
    const lane = this.#lanes[number % this.#lanes.length]?.key ?? "";
    const { nowMs } = this.#place.time;
    this.#scheduler.add({
      ...{ lane, runId: "", items, left: items, onItem, arrivedMs: nowMs, deadlineMs: nowMs + slaMs },
      inputTokens: items * LOAD.inputTokens,
      expectedOutputTokens: items * USED.outputTokens,
    });
  }

  #pumpAll(): void {
    for (const lane of this.#lanes) this.#pump(lane);
  }

  #pump(lane: ModelledLane): void {
    const { time } = this.#place;
    while (!this.#isClosed) {
      const ticket = this.#scheduler.peek(lane.key);
      if (ticket === undefined) return;
      const reservation = lane.limits.reserve(time.nowMs, LOAD);
      if (!reservation.ok) {
        this.#wakeLater(lane, reservation.waitMs);
        return;
      }
      ticket.left -= 1;
      if (ticket.left === 0) this.#scheduler.take(lane.key);
      this.#stage(lane, reservation.permit, ticket.onItem);
    }
  }

  #wakeLater(lane: ModelledLane, waitMs: number): void {
    const { time } = this.#place;
    const atMs = time.nowMs + waitMs;
    if (waitMs === Number.POSITIVE_INFINITY || (lane.wakesAtMs > time.nowMs && lane.wakesAtMs <= atMs))
      return;
    lane.wakesAtMs = atMs;
    time.after(waitMs, () => {
      if (lane.wakesAtMs === atMs) this.#pump(lane);
    });
  }

  #stage(lane: ModelledLane, permit: Permit, onItem: () => void): void {
    const { time, tallies } = this.#place;
    this.#staged.intents.push(() => {
      tallies.sent(time.nowMs);
      time.after(this.#terms.answerMs * (0.5 + time.random()), () => {
        if (this.#isClosed) return;
        lane.limits.settle(time.nowMs, permit, USED);
        lane.limits.observe(time.nowMs, { kind: "success" }, permit);
        this.#staged.answers.push(() => {
          tallies.answered += 1;
          onItem();
        });
        this.#commitSoon();
        lane.limits.release(time.nowMs, permit);
        this.#pump(lane);
      });
    });
    this.#commitSoon();
  }

  #renewLater(): void {
    const { time } = this.#place;
    time.after(RENEW_MS, () => {
      if (this.#isClosed) return;
      this.#renewals += 1;
      this.#commitSoon();
      this.#renewLater();
    });
  }

  #commitSoon(): void {
    if (this.#isCommitting || this.#isClosed) return;
    this.#isCommitting = true;
    this.#place.time.after(0, () => this.#commit());
  }

  #commit(): void {
    const group = this.#staged;
    this.#staged = emptyGroup();
    this.#renewals = 0;
    const { session, part, renew, onLost, tallies, time } = this.#place;
    const startedMs = time.nowMs;
    let isOwner = true;
    const steps = statementsOf(group);
    session.begin();
    const next = (): void => {
      const cpuMs = steps.shift();
      if (cpuMs !== undefined) session.run("commits", { cpuMs, isWrite: true }, () => undefined, next);
      else session.commit("commits", costs.COMMIT, ended);
    };
    const ended = (): void => {
      tallies.committed(
        group.intents.length + group.answers.length + group.posts.length,
        time.nowMs - startedMs,
      );
      if (!isOwner) {
        this.close();
        onLost();
        return;
      }
      for (const done of [...group.posts, ...group.answers, ...group.intents]) done();
      this.#isCommitting = false;
      const { intents, answers, posts } = this.#staged;
      if (this.#renewals + intents.length + answers.length + posts.length > 0) this.#commitSoon();
    };
    const locks = [`partition ${part}`];
    session.run(
      "commits",
      { cpuMs: costs.ROUND_TRIP },
      () => undefined,
      () =>
        session.run(
          "commits",
          { cpuMs: costs.PARTITION.renew, isWrite: true, locks },
          () => {
            isOwner = renew();
          },
          next,
        ),
    );
  }
}

function emptyGroup(): StagedGroup {
  return { intents: [], answers: [], posts: [] };
}

/** Milliseconds of a core for each statement. */
function statementsOf({ intents, answers, posts }: StagedGroup): number[] {
  const { append, file, posts: accept, item, post } = costs.PARTITION;
  const journaled = intents.length + answers.length;
  return [
    ...(journaled > 0 ? [append + item * journaled] : []),
    ...(answers.length > 0 ? [file + item * answers.length] : []),
    ...(posts.length > 0 ? [accept + post * posts.length] : []),
  ];
}

/** What `ShardWork` reads of a summary. */
function summaryOf(lines: number): Awaited<Run["finished"]> {
  const cost = { billed_usd: 0, ambiguous_usd: 0 };
  return { status: "completed", items: lines, cost } as Awaited<Run["finished"]>; // the rest is only written
}

function progressOf(linesTotal: number, settled: number): ReturnType<Run["look"]> {
  return { state: "running", held: [], lanes: [], linesTotal, settled } as unknown as ReturnType<Run["look"]>; // the rest is only written
}

/** What the limits of a minute let through in a time. */
export function allowedIn({ providers, requestsPerMinute }: EngineTerms, ms: number): number {
  return (providers.length * requestsPerMinute * ms) / MINUTE_MS;
}
