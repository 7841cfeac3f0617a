/**
 * Which job may begin its next attempt, and when.
 *
 *   waiting -> (its destination has a slot, its project's turn, a place) -> running -> ended
 *      \-> removed
 *
 * Order: projects take turns by start-time fair queueing (`queue/fair_share.ts`), each with the earliest deadline of those
 * whose destination has a slot. So of one project and one destination the earliest deadline is first; what waits for
 * its destination holds no place and nobody up; and 100,000 jobs of one project delay ten of another's by as many.
 *
 * A project may hold at most twice as many places as are free (dynamic thresholds: Choudhury and Hahne 1998, "Dynamic queue
 * length thresholds for shared-memory packet switches"): by itself it has two thirds of them, and a later one finds room,
 * however long attempts take.
 *
 * The same rule holds inside a destination for jobs that name a share of it, such as an endpoint of a host: a share begins another
 * job only while it has fewer under way than twice the free slots, so that one that hangs leaves slots to the others. Of 12 slots,
 * a single share has 8.
 *
 * A slot of a destination goes to the next waiting job, or else back to bottleneck.
 *
 * Limits: `placesMax` attempts at once; 32 slots asked for and not yet given, of each destination.
 */
import { FairShare } from "../queue/fair_share.ts";
import { Heap } from "../queue/heap.ts";
import type { Destinations } from "./destinations.ts";
import type { JobDestination } from "./job.ts";

/** What the order of a waiting job needs. */
export interface Waiting {
  readonly project: string;
  /** Undefined: nowhere in particular. */
  readonly destination: JobDestination | undefined;
  readonly deadlineMs: number;
}

/** Bounds of the order, and what it begins. */
export interface OrderOptions<T extends Waiting> {
  readonly placesMax: number;
  readonly destinations: Destinations;
  /** Begins an attempt; call `ended` at its end. Must not throw. */
  readonly start: (job: T) => void;
}

const SLOTS_ASKED_MAX = 32;
const FREE_SHARE = 2;

/** Jobs to one destination, of all projects. */
interface Lane<T> {
  readonly name: string;
  readonly concurrency: number;
  /** What each project has here, each share of it by itself. */
  readonly places: Map<string, LaneOfProject<T>>;
  /** Slots without a job. */
  readonly idle: (() => void)[];
  waiting: number;
  running: number;
  asked: number;
}

interface LaneOfProject<T> {
  readonly lane: Lane<T> | undefined;
  readonly projectName: string;
  /** Undefined: no bound but the lane's. */
  readonly share: string | undefined;
  /** By deadline; those that were removed are passed over. */
  readonly heap: Heap<T>;
  waiting: number;
  running: number;
  /** The deadline under which its project has it as ready; undefined: it is not ready. */
  readyMs: number | undefined;
}

interface Project<T> {
  readonly name: string;
  /** Those that may have something to run, by its deadline: checked again when they are taken. */
  readonly ready: Heap<LaneOfProject<T>>;
  readonly nowhere: LaneOfProject<T>;
  waiting: number;
  running: number;
}

/** The place of a waiting or running one. */
interface Entered<T> {
  readonly project: Project<T>;
  readonly place: LaneOfProject<T>;
  /** Once it runs: passes the slot on or returns it. */
  slot?: (() => void) | undefined;
}

/** Only in memory: what waits in it is pending in the store, and a new process fills it again. */
export class JobOrder<T extends Waiting> {
  readonly #options: OrderOptions<T>;
  readonly #projects = new Map<string, Project<T>>();
  readonly #lanes = new Map<string, Lane<T>>();
  readonly #share = new FairShare<Project<T>>({ weightOf: () => 1, nameOf: ({ name }) => name });
  readonly #waiting = new Map<T, Entered<T>>();
  readonly #running = new Map<T, Entered<T>>();
  #isPaused = false;
  #isClosed = false;

  constructor(options: OrderOptions<T>) {
    this.#options = options;
  }

  get running(): number {
    return this.#running.size;
  }

  get #free(): number {
    return this.#options.placesMax - this.#running.size;
  }

  /** It waits from now on; it may begin at once. */
  push(job: T): void {
    if (this.#isClosed) return;
    const project = this.#project(job.project);
    const place = this.#place(project, job);
    place.heap.push(job.deadlineMs, job);
    this.#waiting.set(job, { project, place });
    place.waiting += 1;
    project.waiting += 1;
    if (place.lane !== undefined) place.lane.waiting += 1;
    this.#list(project, place);
    this.#share.join(project);
    if (place.lane !== undefined) this.#balance(place.lane);
    this.#fill();
  }

  /**
   * A place for a job that never waited and has no destination; call `ended` at its end. False when it has to
   * wait: everything else that could begin has begun, so the others lose nothing by it.
   */
  take(job: T): boolean {
    if (this.#isPaused || this.#isClosed || job.destination !== undefined) return false;
    const project = this.#project(job.project);
    const isFree = project.waiting === 0 && project.running < FREE_SHARE * this.#free;
    if (isFree) {
      project.running += 1;
      this.#running.set(job, { project, place: project.nowhere });
    } else this.#forget(project);
    return isFree;
  }

  /** It waits no more; nothing when it does not. */
  remove(job: T): void {
    const entered = this.#waiting.get(job);
    if (entered === undefined) return;
    this.#leave(job, entered);
    if (entered.place.lane !== undefined) this.#balance(entered.place.lane);
    this.#forget(entered.project);
  }

  /** Its attempt has ended; a second call does nothing. */
  ended(job: T): void {
    const entered = this.#running.get(job);
    if (entered === undefined) return;
    this.#running.delete(job);
    const { project, place, slot } = entered;
    project.running -= 1;
    if (place.lane !== undefined && slot !== undefined) {
      place.lane.running -= 1;
      place.running -= 1;
      dropUnused(place);
      this.#opened(place.lane, slot);
    }
    this.#forget(project);
    this.#fill();
  }

  /** While paused nothing begins. */
  pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#fill();
  }

  /** Nothing begins any more; what runs may still call `ended`. */
  close(): void {
    this.#isClosed = true;
    for (const job of [...this.#waiting.keys()]) this.remove(job);
  }

  #fill(): void {
    while (!this.#isPaused && !this.#isClosed && this.#free > 0) {
      const free = this.#free;
      const canServe = (one: Project<T>): boolean =>
        one.running < FREE_SHARE * free && this.#head(one) !== undefined;
      const project = this.#share.next(canServe);
      if (project === undefined || !canServe(project)) return;
      const job = this.#head(project) as T; // `canServe` has seen it
      this.#share.served(project, 1);
      this.#start(job, this.#waiting.get(job) as Entered<T>); // heads are waiting
    }
  }

  #start(job: T, entered: Entered<T>): void {
    const { project, place } = entered;
    const { lane } = place;
    this.#leave(job, entered);
    if (lane !== undefined) {
      entered.slot = lane.idle.pop();
      lane.running += 1;
      place.running += 1;
      lane.places.set(keyOf(place), place); // it left with its last waiting job
    }
    project.running += 1;
    this.#running.set(job, entered);
    this.#options.start(job);
  }

  /** Out of what waits; the heap passes over it, and drops such when they are the most. */
  #leave(job: T, { project, place }: Entered<T>): void {
    this.#waiting.delete(job);
    place.waiting -= 1;
    project.waiting -= 1;
    if (place.lane !== undefined) place.lane.waiting -= 1;
    if (project.waiting === 0) this.#share.leave(project);
    dropUnused(place);
    if (place.heap.size > 2 * place.waiting + 16) place.heap.keep((one) => this.#waiting.has(one));
    this.#list(project, place);
  }

  /** The earliest that a project could begin now. */
  #head({ ready }: Project<T>): T | undefined {
    for (;;) {
      const top = ready.peek();
      if (top === undefined) return undefined;
      const place = top.value;
      const head = this.#headOf(place);
      if (head?.deadlineMs === top.key && hasSlot(place)) return head;
      ready.pop(); // listed again with its lane's next slot, or under another deadline
      if (place.readyMs === top.key) place.readyMs = undefined;
    }
  }

  #headOf({ heap }: LaneOfProject<T>): T | undefined {
    for (;;) {
      const top = heap.peek();
      if (top === undefined || this.#waiting.has(top.value)) return top?.value;
      heap.pop();
    }
  }

  /** Its project reads it, under its earliest deadline. */
  #list(project: Project<T>, place: LaneOfProject<T>): void {
    const head = this.#headOf(place);
    if (head === undefined || head.deadlineMs === place.readyMs) return;
    place.readyMs = head.deadlineMs;
    project.ready.push(head.deadlineMs, place);
  }

  /** It has one slot more: those that wait there may be served. */
  #opened(lane: Lane<T>, slot: () => void): void {
    lane.idle.push(slot);
    for (const place of lane.places.values()) {
      const project = this.#projects.get(place.projectName);
      if (project !== undefined) this.#list(project, place);
    }
    this.#balance(lane);
  }

  /** As many slots as there are jobs for them, no more. */
  #balance(lane: Lane<T>): void {
    while (lane.idle.length > lane.waiting) lane.idle.pop()?.();
    while (lane.asked < SLOTS_ASKED_MAX && lane.asked + lane.idle.length < lane.waiting) {
      lane.asked += 1;
      this.#options.destinations.ask(lane.name, lane.concurrency, (slot) => {
        lane.asked -= 1;
        this.#opened(lane, slot);
        this.#fill();
      });
    }
    if (lane.waiting + lane.running + lane.asked === 0) this.#lanes.delete(lane.name);
  }

  #place(project: Project<T>, { destination }: T): LaneOfProject<T> {
    if (destination === undefined) return project.nowhere;
    const { name, concurrency, share } = destination;
    const lane = this.#lanes.get(name) ?? newLane<T>(name, concurrency);
    this.#lanes.set(name, lane);
    const key = keyOf({ projectName: project.name, share });
    const place = lane.places.get(key) ?? newPlace(lane, project.name, share);
    lane.places.set(key, place);
    return place;
  }

  #project(name: string): Project<T> {
    const known = this.#projects.get(name);
    if (known !== undefined) return known;
    const nowhere = newPlace<T>(undefined, name, undefined);
    const project: Project<T> = { name, ready: new Heap(), nowhere, waiting: 0, running: 0 };
    this.#projects.set(name, project);
    return project;
  }

  #forget(project: Project<T>): void {
    if (project.waiting === 0 && project.running === 0) this.#projects.delete(project.name);
  }
}

function newLane<T>(name: string, concurrency: number): Lane<T> {
  return { name, concurrency, places: new Map(), idle: [], waiting: 0, running: 0, asked: 0 };
}

function newPlace<T>(
  lane: Lane<T> | undefined,
  projectName: string,
  share: string | undefined,
): LaneOfProject<T> {
  return { lane, projectName, share, heap: new Heap(), waiting: 0, running: 0, readyMs: undefined };
}

function keyOf({ projectName, share = "" }: Pick<LaneOfProject<unknown>, "projectName" | "share">): string {
  return `${projectName}\n${share}`;
}

/** Whether one more may begin there. */
function hasSlot<T>({ lane, share, running }: LaneOfProject<T>): boolean {
  if (lane === undefined) return true;
  const isInShare = share === undefined || running < FREE_SHARE * (lane.concurrency - lane.running);
  return isInShare && lane.idle.length > 0;
}

function dropUnused<T>(place: LaneOfProject<T>): void {
  if (place.waiting + place.running === 0) place.lane?.places.delete(keyOf(place));
}
