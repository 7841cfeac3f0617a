/**
 * The feed of the operator page: once a second, the state of a project's work, for all listeners.
 *
 *   no listener -> (one joins) -> a timer for all -> (the last one leaves) -> no listener
 *   listener: listening -> left         it disconnected, its key is not accepted any more, or it does not read
 *
 * Listeners of one project that show the same tasks share one snapshot. Nothing is computed without listeners.
 *
 * Limits: 128 listeners, 16 of one project; a listener that has not read for 10 s is dropped.
 */
import type { Clock, Timer } from "../../clock.ts";
import type { LaneStatus } from "../../engine/lanes/lane_status.ts";
import type { BatchStatus } from "../../engine/shown/batch_status.ts";
import { PerigeeError } from "../../errors.ts";
import { moneyBody, NO_MONEY } from "../../price/money.ts";
import { laneKey } from "../../queue/lanes.ts";
import { type Activity, type ActivityTally, SECONDS_KEPT } from "./activity.ts";
import { batchesBody } from "./batch_feed.ts";
import { type FleetState, fleetBody } from "./fleet_state.ts";
import type { History } from "./history.ts";
import { lanesBody } from "./lane_feed.ts";
import type { SatelliteFeed } from "./satellite_feed.ts";
import type { TaskFeed } from "./task_feed.ts";

const EVERY_MS = 1_000;
const LISTENERS_MAX = 128;
const PROJECT_LISTENERS_MAX = 16;
/** Snapshots that a listener may miss because it does not read. */
const MISSED_MAX = 10;
/** Seconds of throughput in each snapshot: more than one, for those who missed some. */
const SECONDS_SENT = 15;
/** Minutes of the day in each snapshot. */
const MINUTES_SENT = 3;
/** How items end without an error: a cancel by their user is not an error. */
const NO_ERRORS: readonly string[] = ["completed", "cancelled"];
/** Rates are means over so many seconds. */
const RATE_SECONDS = 10;

export interface FeedOptions {
  readonly clock: Clock;
  readonly tasks: Pick<TaskFeed, "page" | "outlook">;
  readonly history: Pick<History, "day" | "recent">;
  readonly activity: Pick<Activity, "project" | "second">;
  readonly lanes: () => readonly LaneStatus[];
  readonly batches: () => readonly BatchStatus[];
  readonly satellites?: Pick<SatelliteFeed, "snapshot"> | undefined;
  /** The fleet that the service is part of. */
  readonly fleet?: (() => FleetState) | undefined;
}

/** One page that is open somewhere. */
export interface Listener {
  readonly project: string;
  /** Sees the lanes and batches of all projects, not only its own, and the fleet. */
  readonly seesAllLanes: boolean;
  /** Sees executions and clusters. */
  readonly seesSatellites: boolean;
  /** The task after which its page of tasks begins. */
  readonly after: string | undefined;
  /** Asked before each snapshot; false ends it. */
  isAllowed(): boolean;
  /** Whether what was sent before has been read. */
  isReady(): boolean;
  send(event: string, data: string): void;
  /** It hears nothing more. */
  end(): void;
}

interface Joined {
  readonly listener: Listener;
  missed: number;
}

/** One for a process. */
export class OperatorFeed {
  readonly #options: FeedOptions;
  readonly #startedWallMs: number;
  readonly #joined = new Set<Joined>();
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: FeedOptions) {
    this.#options = options;
    this.#startedWallMs = options.clock.wallMs();
  }

  /** Begins with the past minutes and a snapshot. Returns how to leave. Throws `too_many`, `closed`. */
  join(listener: Listener): () => void {
    if (this.#isClosed) throw new PerigeeError("closed", "the service is stopping");
    const ofProject = [...this.#joined].filter((one) => one.listener.project === listener.project);
    if (this.#joined.size >= LISTENERS_MAX || ofProject.length >= PROJECT_LISTENERS_MAX)
      throw new PerigeeError("too_many", "too many operator pages are open", {
        details: { retryAfterSeconds: 10 },
      });
    const joined: Joined = { listener, missed: 0 };
    this.#joined.add(joined);
    listener.send("history", JSON.stringify(this.#seconds(listener.project, SECONDS_KEPT)));
    void this.#sendDay(joined);
    void this.#tell([joined]);
    this.#timer ??= this.#arm();
    return () => this.#leave(joined);
  }

  /** Never rejects: without it, the page shows the day from now on. */
  async #sendDay(joined: Joined): Promise<void> {
    const { listener } = joined;
    const day = await this.#options.history.day(listener.project).catch(() => undefined);
    if (day !== undefined && this.#joined.has(joined)) listener.send("day", JSON.stringify(day));
  }

  /** Ends all. */
  close(): void {
    this.#isClosed = true;
    for (const joined of [...this.#joined]) this.#drop(joined);
  }

  #arm(): Timer {
    return this.#options.clock.timer(
      EVERY_MS,
      () => {
        const told = this.#tell([...this.#joined]);
        void told.then(() => {
          if (this.#timer !== undefined) this.#timer = this.#arm();
        });
      },
      { keepsAlive: false },
    );
  }

  #leave(joined: Joined): void {
    this.#joined.delete(joined);
    if (this.#joined.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #drop(joined: Joined): void {
    this.#leave(joined);
    joined.listener.end();
  }

  /** Never rejects. */
  async #tell(all: readonly Joined[]): Promise<void> {
    const made = new Map<string, Promise<string | undefined>>();
    for (const joined of all) {
      const { listener } = joined;
      if (!listener.isAllowed()) this.#drop(joined);
      else if (listener.isReady()) joined.missed = 0;
      else if (++joined.missed >= MISSED_MAX) this.#drop(joined);
      if (joined.missed > 0 || !this.#joined.has(joined)) continue;
      const { project, seesAllLanes, seesSatellites, after = "" } = listener;
      const key = JSON.stringify([project, seesAllLanes, seesSatellites, after]);
      const snapshot = made.get(key) ?? this.#snapshot(listener).catch(() => undefined);
      made.set(key, snapshot);
      const text = await snapshot;
      if (!this.#joined.has(joined)) continue; // left meanwhile
      if (text === undefined)
        this.#drop(joined); // the store failed or closed: the page says that it has lost contact
      else listener.send("snapshot", text);
    }
  }

  async #snapshot({ project, seesAllLanes, seesSatellites, after }: Listener): Promise<string> {
    const { clock, activity, history, tasks, lanes, batches, satellites, fleet } = this.#options;
    const [page, outlook] = await Promise.all([tasks.page(project, after), tasks.outlook(project)]);
    const seen = seesSatellites ? await satellites?.snapshot(project) : undefined;
    const nowMs = clock.wallMs();
    const tally = activity.project(project);
    return JSON.stringify({
      time: nowMs,
      started_at: this.#startedWallMs,
      throughput: { ...this.#rates(project), seconds: this.#seconds(project, SECONDS_SENT) },
      minutes: history.recent(project, MINUTES_SENT),
      ...lanesBody(
        lanes(),
        ({ provider, tier, family }) =>
          seesAllLanes || tally?.lanes.has(laneKey(provider, tier, family)) === true,
      ),
      ...batchesBody(batches(), project, seesAllLanes),
      outlook,
      tasks: page,
      errors: errorsOf(tally),
      totals: totalsOf(tally),
      ...seen,
      ...(seesAllLanes && fleet !== undefined ? { fleet: fleetBody(fleet()) } : {}),
    });
  }

  #rates(project: string): Record<string, number> {
    const { items, tokens } = this.#seconds(project, RATE_SECONDS);
    return {
      items_per_second: sum(items) / RATE_SECONDS,
      tokens_per_second: sum(tokens) / RATE_SECONDS,
    };
  }

  #seconds(
    project: string,
    count: number,
  ): { start: number; items: readonly number[]; tokens: readonly number[] } {
    const { activity } = this.#options;
    const second = activity.second();
    const recent = activity.project(project)?.recent(second, count);
    const nothing = Array.from({ length: count }, () => 0);
    return { start: second - count, items: recent?.items ?? nothing, tokens: recent?.tokens ?? nothing };
  }
}

function errorsOf(tally: ActivityTally | undefined): Record<string, number> {
  const failed = [...(tally?.outcomes ?? [])].filter(([outcome]) => !NO_ERRORS.includes(outcome));
  return Object.fromEntries(failed.sort((left, right) => right[1] - left[1]));
}

function totalsOf(tally: ActivityTally | undefined): Record<string, number> {
  const { inputTokens = 0, outputTokens = 0 } = tally ?? {};
  return {
    completed: tally?.outcomes.get("completed") ?? 0,
    failed: sum(Object.values(errorsOf(tally))),
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    ...moneyBody(tally ?? NO_MONEY),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
