/**
 * Draws from all limits that an engine shares with other processes, and exchanges what waits for them and what is known of lanes, in one call:
 *
 *   idle --a request lacks units, a place or news, or news arose here--> drawing --answered--> waiting 500 ms --> drawing
 *                                                                                --failed----> waiting 500 ms --> drawing (repeats the same asks)
 *   waiting --the same, 50 ms after the last draw--> drawing     (units: unless the last draw brought less than was asked for)
 *   waiting --nothing to ask or report--> idle
 *   any --close--> places are given back, and once more when that has no answer, up to five times
 *
 * Where many processes share a quota, the wait is longer than 500 ms: each grant says how long. It varies by 5 % either way, so that processes
 * that began together do not always draw in the same order.
 */
import { randomUUID } from "node:crypto";
import type { Clock, Timer } from "../../clock.ts";
import { debug } from "../../debug.ts";
import { DRAW_MS, DrawnLoad, type DrawnQuota } from "../../limits/shared/drawn_load.ts";
import { DrawnPlaces } from "../../limits/shared/drawn_places.ts";
import { DrawnWork, REPORT_MS } from "../../limits/shared/drawn_work.ts";
import { type FactsChange, LaneFacts } from "../../limits/shared/lane_facts.ts";
import type {
  FactsPoolAsk,
  LimitPool,
  PlacesPoolAsk,
  PoolAnswers,
  PoolAsk,
  WorkPoolAsk,
} from "../../limits/shared/limit_pool.ts";
import type { QuotaUnits, WorkStanding } from "../../limits/shared/shared_work.ts";

/** The least time between two draws: requests that lack units meanwhile share the next one. */
const BETWEEN_MS = 50;
/** Places live 2 s, however many processes share them. Less than the 1.5 s for which an ask counts, also 5 % later. */
const PLACES_DRAW_MS_MAX = 1_400;
/** A repeated ask has the answer of before, so what it gives back may take two. */
const GIVE_BACK_TRIES = 5;
const JITTER = 0.1;

export interface LimitDrawsOptions {
  readonly clock: Clock;
  /** Undefined: nothing is shared. */
  readonly pool: LimitPool | undefined;
  /** Lets all lanes send. */
  readonly pumpAll: () => void;
  /** The others have stopped a lane, or let it go on. */
  readonly onFacts: (facts: LaneFacts, change: FactsChange) => void;
}

/** The asks of a draw, and where their answers go. */
interface Drawing {
  readonly blocks: readonly (PoolAsk & { readonly load: DrawnLoad; readonly part: DrawnQuota })[];
  readonly places: readonly (PlacesPoolAsk & { readonly drawn: DrawnPlaces })[];
  readonly works: readonly (WorkPoolAsk & { readonly drawn: DrawnWork })[];
  readonly facts: readonly (FactsPoolAsk & { readonly lane: LaneFacts })[];
}

export class LimitDraws {
  readonly #options: LimitDrawsOptions;
  readonly #holder = randomUUID();
  readonly #loads = new Map<string, DrawnLoad>();
  readonly #places = new Map<string, DrawnPlaces>();
  /** What waits for limits, by their names. */
  readonly #works = new Map<string, DrawnWork>();
  readonly #facts: { readonly name: string; readonly lane: LaneFacts }[] = [];
  #armed: { readonly timer: Timer; readonly atMs: number } | undefined;
  /** The draw under way, or the last one. `lacks`: something was lacking since it began. */
  readonly #last = { atMs: Number.NEGATIVE_INFINITY, isUnderWay: false, lacks: false };
  #isClosed = false;

  constructor(options: LimitDrawsOptions) {
    this.#options = options;
  }

  /** The drawn quotas of a name, which is the same in all processes: an account, with or without a family of models. Undefined where nothing is shared. */
  of(pool: string): DrawnLoad | undefined {
    if (this.#options.pool === undefined) return undefined;
    const known = this.#loads.get(pool);
    if (known !== undefined) return known;
    const made = new DrawnLoad(this.#holder, (isShort) => (isShort ? this.#lackLater() : this.#lack()));
    this.#loads.set(pool, made);
    return made;
  }

  /** The drawn places of such a name. `limit`: undefined where places are not limited. `lastsMs`: how long one request may last. */
  placesOf(pool: string, limit: number | undefined, lastsMs: number): DrawnPlaces | undefined {
    if (this.#options.pool === undefined || limit === undefined) return undefined;
    const known = this.#places.get(pool);
    if (known !== undefined) return known;
    const made = new DrawnPlaces(this.#holder, limit, lastsMs, () => this.#lack());
    this.#places.set(pool, made);
    return made;
  }

  /** What waits for the limits of such a name, here and at the other processes. `standing`: here. */
  workOf(pool: string, standing: () => WorkStanding): DrawnWork | undefined {
    if (this.#options.pool === undefined) return undefined;
    const made = new DrawnWork(this.#holder, standing);
    this.#works.set(pool, made);
    this.#arm(REPORT_MS);
    return made;
  }

  /** What all processes know of a lane; a new one for each lane of this engine. */
  factsOf(pool: string): LaneFacts | undefined {
    if (this.#options.pool === undefined) return undefined;
    const lane = new LaneFacts(`${this.#holder} ${this.#facts.length}`, () => this.#lack());
    this.#facts.push({ name: `${pool} facts`, lane });
    return lane;
  }

  /** Begins no more draws, but one that gives back all places: no request is in flight. */
  close(): void {
    this.#isClosed = true;
    this.#armed?.timer.cancel();
    if (!this.#last.isUnderWay) this.#giveBack();
  }

  /** In the end they are free when the session of this process has ended. */
  #giveBack(tries = GIVE_BACK_TRIES): void {
    const { clock, pool } = this.#options;
    for (const drawn of this.#places.values()) drawn.end();
    const { places } = this.#drawing(clock.nowMs());
    if (places.length === 0 || tries === 0) return;
    void pool?.draw({ blocks: [], places, works: [], facts: [] }).then(
      ({ places: grants }) => {
        for (const [index, grant] of grants.entries()) places[index]?.drawn.answered(grant);
        this.#giveBack(tries - 1);
      },
      () => void clock.timer(DRAW_MS, () => this.#giveBack(tries - 1), { keepsAlive: false }),
    );
  }

  #lack(): void {
    this.#last.lacks = true;
    if (!this.#last.isUnderWay) this.#arm(this.#last.atMs + BETWEEN_MS - this.#options.clock.nowMs());
  }

  /** Draws when it is time: between two requests of a slow limit there may have been nothing to draw for. */
  #lackLater(): void {
    if (!this.#last.isUnderWay && !this.#isSoon)
      this.#arm(this.#last.atMs + this.#drawMs - this.#options.clock.nowMs());
  }

  get #isSoon(): boolean {
    return this.#armed !== undefined && this.#armed.atMs <= this.#options.clock.nowMs() + DRAW_MS;
  }

  #arm(delayMs: number): void {
    const { clock } = this.#options;
    const atMs = clock.nowMs() + Math.max(0, delayMs);
    if (this.#isClosed || (this.#armed !== undefined && atMs >= this.#armed.atMs)) return;
    this.#armed?.timer.cancel();
    const timer = clock.timer(delayMs, () => {
      this.#armed = undefined;
      void this.#draw();
    });
    this.#armed = { timer, atMs };
  }

  async #draw(): Promise<void> {
    const { clock, pool, pumpAll } = this.#options;
    const drawing = this.#drawing(clock.nowMs());
    this.#last.lacks = false;
    const { blocks, places, works, facts } = drawing;
    if (blocks.length + places.length + works.length + facts.length === 0 || pool === undefined) {
      if (this.#works.size > 0) this.#arm(REPORT_MS); // something may go with batches, without a draw
      return; // idle until something is lacking
    }
    this.#last.isUnderWay = true;
    this.#last.atMs = clock.nowMs();
    const answers = await pool.draw(drawing).catch((error: unknown) => {
      debug.limits?.(`no answer to a draw: ${String(error)}`);
      return undefined;
    });
    this.#last.isUnderWay = false;
    if (answers !== undefined && this.#answered(drawing, answers)) pumpAll();
    if (this.#isClosed) this.#giveBack();
    this.#arm(
      this.#last.lacks && answers !== undefined
        ? BETWEEN_MS
        : this.#drawMs * (1 + JITTER * (clock.random() - 0.5)),
    );
  }

  /** Returns whether a lane may send more than before. */
  #answered({ blocks, places, works, facts }: Drawing, answers: PoolAnswers): boolean {
    const { clock, onFacts } = this.#options;
    let isMore = false;
    for (const [index, grant] of answers.blocks.entries()) {
      const block = blocks[index];
      block?.load.answered(block.part, grant);
      isMore ||= grant.units > 0;
    }
    for (const [index, grant] of answers.places.entries()) {
      places[index]?.drawn.answered(grant);
      isMore ||= grant.places > 0;
    }
    for (const [index, others] of answers.works.entries()) {
      const said = works[index];
      said?.drawn.answered(clock.nowMs(), said.ask, others);
    }
    for (const [index, known] of answers.facts.entries()) {
      const said = facts[index];
      const change = said?.lane.answered(clock.nowMs(), said.ask, known);
      if (said === undefined || change === undefined) continue;
      onFacts(said.lane, change);
      isMore = true;
    }
    return isMore;
  }

  /** Until the next draw. */
  get #drawMs(): number {
    const drawMs = Math.max(DRAW_MS, ...[...this.#loads.values()].map((load) => load.drawMs));
    return this.#places.size === 0 ? drawMs : Math.min(drawMs, PLACES_DRAW_MS_MAX);
  }

  #drawing(nowMs: number): Drawing {
    const drawMs = this.#drawMs;
    const blocks = [...this.#loads].flatMap(([pool, load]) =>
      load.asks(nowMs, drawMs).map(([part, ask]) => ({
        ...{ quota: `${pool} ${part}`, ask, load, part, pool },
        ...this.#workFor(pool, part),
      })),
    );
    const places = [...this.#places].flatMap(([pool, drawn]) => {
      const ask = drawn.ask(nowMs);
      return ask === undefined
        ? []
        : [{ name: `${pool} places`, ask, drawn, pool, ...this.#workFor(pool, "requests") }];
    });
    const drawnFrom = new Set([...blocks, ...places].map(({ pool }) => pool));
    const works = [...this.#works].flatMap(([pool, drawn]) => {
      const ask = drawn.ask(nowMs, drawnFrom.has(pool));
      return ask === undefined ? [] : [{ name: workName(pool), ask, drawn }];
    });
    const facts = this.#facts.flatMap(({ name, lane }) => {
      const ask = lane.ask(nowMs);
      return ask === undefined ? [] : [{ name, ask, lane }];
    });
    return { blocks, places, works, facts };
  }

  #workFor(pool: string, units: keyof QuotaUnits): Pick<PoolAsk, "work"> {
    return this.#works.has(pool) ? { work: { name: workName(pool), units } } : {};
  }
}

function workName(pool: string): string {
  return `${pool} work`;
}
