/**
 * Whose turn it is among the lanes of a provider, where what they share (limits set for the provider, its places in
 * flight) is what they wait for.
 *
 *   free --refused by what is shared, or another lane was--> waits --its turn, and there is room--> sends one --> waits
 *   waits --has nothing to send, or waits for its own limits or money--> free
 *
 * Turns are the projects' (queue/fair_share.ts): they share what is shared by their weights, in however many lanes
 * they wait. Of a project's lanes the one that has waited longest is served. While fewer than two lanes wait, that one serves
 * its projects as if it shared nothing. Where deadlines wait, the turns are among projects whose next item in a lane that
 * waits is first (queue/urgency.ts).
 */
import { FairShare } from "../../queue/fair_share.ts";
import { Lending } from "../../queue/lending.ts";
import { isLent, type Urgency } from "../../queue/urgency.ts";

/** A lane, as its turns see it. */
export interface TurnTaker {
  /** Whether it has something of a project that could be sent. */
  canSend(project: string): boolean;
  /** Whether its next item of a project goes first; `isLending`: whether a turn may be lent. */
  isFirst(project: string, urgency: Urgency, isLending: boolean): boolean;
  /** Requests of a project. */
  inFlightOf(project: string): number;
  /** Requests that may be in flight. */
  readonly places: number;
  /** Sends what it may, but nothing of runs that it found without money before. */
  takeTurn(): void;
}

/** What was sent. */
export interface TakenTurn {
  readonly project: string;
  readonly deadlineMs: number;
  /** Of the share of the project. */
  readonly costMs: number;
  /** Of the turns that are lent. */
  readonly quotaMs: number;
}

interface Waiting {
  readonly project: string;
  weight: number;
  /** In which it waits. */
  lanes: number;
}

/** One for a provider. */
export class LaneTurns {
  readonly #urgency: () => Urgency | undefined;
  /** All of the provider. */
  readonly #all: TurnTaker[] = [];
  /** Lanes that wait, longest first. */
  readonly #waiting = new Set<TurnTaker>();
  /** Projects that wait in some lane. */
  readonly #projects = new Map<string, Waiting>();
  readonly #share = new FairShare<Waiting>({
    weightOf: ({ weight }) => weight,
    nameOf: ({ project }) => project,
  });
  readonly #lending = new Lending();
  /** A project with as many requests in flight waits while others can go; Infinity while places are free. */
  #placesOfWeight = Number.POSITIVE_INFINITY;
  #isPassing = false;
  /** Lanes that had their turn since the last change: shares of places may name them in turns for ever. */
  readonly #tried = new Set<TurnTaker>();

  /** `urgency` says which work has precedence among all that waits in the provider's lanes. */
  constructor(urgency: () => Urgency | undefined = () => undefined) {
    this.#urgency = urgency;
  }

  /** A lane of the provider was made. */
  add(lane: TurnTaker): void {
    this.#all.push(lane);
  }

  /** A project waits in a lane from now on. */
  began(project: string, weight: number): void {
    const waiting = this.#projects.get(project) ?? { project, weight, lanes: 0 };
    waiting.weight = weight;
    waiting.lanes += 1;
    this.#projects.set(project, waiting);
    this.#share.join(waiting);
  }

  /** A project waits in a lane no more. */
  ended(project: string): void {
    const waiting = this.#projects.get(project);
    if (waiting === undefined) return;
    waiting.lanes -= 1;
    if (waiting.lanes > 0) return;
    this.#share.leave(waiting);
    this.#projects.delete(project);
  }

  /** Whether another lane waits for what is shared. */
  isContended(lane: TurnTaker): boolean {
    return this.#waiting.size > (this.#waiting.has(lane) ? 1 : 0);
  }

  /** The lane waits for what is shared; `isOutOfPlaces`: for a place in flight. */
  wait(lane: TurnTaker, isOutOfPlaces?: boolean): void {
    this.#waiting.add(lane);
    if (isOutOfPlaces === undefined) return;
    let weights = 0;
    if (isOutOfPlaces) for (const { weight } of this.#share.waiting()) weights += weight;
    this.#placesOfWeight = weights > 0 ? lane.places / weights : Number.POSITIVE_INFINITY;
  }

  /** The lane does not wait for what is shared; a lane that waited in vain for its turn may have it now. */
  left(lane: TurnTaker): void {
    if (this.#waiting.delete(lane)) this.#tried.clear();
  }

  /** Whose item a lane that waits may send now; undefined when it is another lane's turn. */
  projectFor(lane: TurnTaker): string | undefined {
    const next = this.#next();
    return next?.lane === lane ? next.project : undefined;
  }

  /** A lane that waits has sent an item. */
  served(lane: TurnTaker, turn: TakenTurn): void {
    this.#waiting.delete(lane);
    this.#waiting.add(lane);
    const waiting = this.#projects.get(turn.project);
    if (waiting !== undefined) this.#share.served(waiting, turn.costMs);
    const urgency = this.#share.size < 2 ? undefined : this.#urgency();
    this.#lending.served(turn.quotaMs, urgency !== undefined && isLent(urgency, turn));
  }

  /**
   * What lanes share is free again, or an item left its lane, because it was sent or held: lanes that had their turn in vain
   * may have another one.
   */
  changed(): void {
    if (this.#tried.size > 0) this.#tried.clear(); // V8 makes a new table even of an empty set
  }

  /** Lets those lanes go whose turn it is by now, until one of them has to wait. */
  pass(lane: TurnTaker): void {
    if (this.#isPassing || !this.isContended(lane)) return;
    this.#isPassing = true;
    try {
      this.#tried.add(lane);
      for (;;) {
        const next = this.#next()?.lane;
        if (next === undefined || this.#tried.has(next)) return;
        this.#tried.add(next);
        next.takeTurn();
      }
    } finally {
      this.#tried.clear();
      this.#isPassing = false;
    }
  }

  #next(): { readonly project: string; readonly lane: TurnTaker } | undefined {
    const urgency = this.#share.size < 2 ? undefined : this.#urgency();
    const first = urgency === undefined ? undefined : this.#nextFirst(urgency);
    if (first !== undefined) return first;
    let next = this.#share.next(this.#canServe);
    if (next === undefined && this.#placesOfWeight < Number.POSITIVE_INFINITY) {
      this.#placesOfWeight = Number.POSITIVE_INFINITY; // nobody else can go
      next = this.#share.next(this.#canServe);
    }
    const lane = next === undefined ? undefined : this.#laneOf(next.project);
    return next === undefined || lane === undefined ? undefined : { project: next.project, lane };
  }

  #nextFirst(urgency: Urgency): { readonly project: string; readonly lane: TurnTaker } | undefined {
    const goesFirst = ({ project }: Waiting): boolean => this.#laneOf(project, urgency) !== undefined;
    if (!this.#share.some(goesFirst)) return undefined;
    const canGo = (waiting: Waiting): boolean => goesFirst(waiting) && this.#canServe(waiting);
    const next = this.#share.next(canGo) ?? this.#share.next(goesFirst); // more than its share of places, if need be
    const lane = next === undefined ? undefined : this.#laneOf(next.project, urgency);
    return next === undefined || lane === undefined ? undefined : { project: next.project, lane };
  }

  readonly #canServe = ({ project, weight }: Waiting): boolean => {
    if (this.#placesOfWeight < Number.POSITIVE_INFINITY) {
      let inFlight = 0;
      for (const lane of this.#all) inFlight += lane.inFlightOf(project);
      if (inFlight >= this.#placesOfWeight * weight) return false;
    }
    return this.#laneOf(project) !== undefined;
  };

  #laneOf(project: string, urgency?: Urgency): TurnTaker | undefined {
    for (const lane of this.#waiting)
      if (
        lane.canSend(project) &&
        (urgency === undefined || lane.isFirst(project, urgency, this.#lending.isOpen))
      )
        return lane;
    return undefined;
  }
}
