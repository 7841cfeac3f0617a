/**
 * The feed of the operator page: once a second, the state of a project's work, for all listeners.
 *
 *   no listener -> (one joins) -> a timer for all -> (the last one leaves) -> no listener
 *   listener: listening -> left         it disconnected, its key is not accepted any more, or it does not read
 *
 * Listeners of one project that show the same tasks share one snapshot. Nothing is computed without listeners.
 *
 * Limits: 128 listeners, 16 of one project; 50 tasks a snapshot; who has not read for 10 s is dropped.
 */
import type { Clock, Timer } from "../../clock.ts";
import type { LaneStatus } from "../../engine/lanes/lane_status.ts";
import type { BatchStatus } from "../../engine/shown/batch_status.ts";
import { hasCode, PerigeeError } from "../../errors.ts";
import { moneyBody, NO_MONEY } from "../../price/money.ts";
import { laneKey } from "../../queue/lanes.ts";
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import type { Tasks } from "../../tasks/shapes/tasks.ts";
import { taskHold } from "../infer/task_body.ts";
import { type Activity, type ActivityTally, SECONDS_KEPT } from "./activity.ts";
import { batchesBody } from "./batch_feed.ts";
import type { SatelliteFeed } from "./satellite_feed.ts";

const EVERY_MS = 1_000;
const LISTENERS_MAX = 128;
const PROJECT_LISTENERS_MAX = 16;
const TASKS_PAGE = 50;
/** Snapshots that a listener may miss because it does not read. */
const MISSED_MAX = 10;
/** Seconds of throughput in each snapshot: more than one, for those who missed some. */
const SECONDS_SENT = 15;
/** How items end without an error: a cancel by their user is not an error. */
const NO_ERRORS: readonly string[] = ["completed", "cancelled"];
/** Rates are means over so many seconds. */
const RATE_SECONDS = 10;

export interface FeedOptions {
  readonly clock: Clock;
  readonly tasks: Pick<Tasks, "list">;
  readonly activity: Pick<Activity, "project" | "second">;
  readonly lanes: () => readonly LaneStatus[];
  readonly batches: () => readonly BatchStatus[];
  readonly satellites?: Pick<SatelliteFeed, "snapshot"> | undefined;
}

/** One page that is open somewhere. */
export interface Listener {
  readonly project: string;
  /** Sees the lanes and batches of all projects, not only its own. */
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
    void this.#tell([joined]);
    this.#timer ??= this.#arm();
    return () => this.#leave(joined);
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
    const { clock, activity, lanes, batches, satellites } = this.#options;
    const page = await this.#tasksAfter(project, after);
    const seen = seesSatellites ? await satellites?.snapshot(project) : undefined;
    const nowMs = clock.wallMs();
    const tally = activity.project(project);
    return JSON.stringify({
      time: nowMs,
      started_at: this.#startedWallMs,
      throughput: { ...this.#rates(project), seconds: this.#seconds(project, SECONDS_SENT) },
      lanes: lanes()
        .filter(
          ({ provider, tier, family }) =>
            seesAllLanes || tally?.lanes.has(laneKey(provider, tier, family)) === true,
        )
        .map(laneBody),
      ...batchesBody(batches(), project, seesAllLanes),
      tasks: page,
      errors: errorsOf(tally),
      totals: totalsOf(tally),
      ...seen,
    });
  }

  /** A page after a task that does not exist any more is the first one. */
  async #tasksAfter(project: string, after: string | undefined): Promise<Record<string, unknown>> {
    const { tasks, clock } = this.#options;
    try {
      const query = { limit: TASKS_PAGE, ...(after === undefined ? {} : { after }) };
      const { items, hasMore } = await tasks.list(project, query);
      const nowMs = clock.wallMs();
      return { items: items.map((task) => taskBody(task, nowMs)), has_more: hasMore, after: after ?? null };
    } catch (error) {
      if (after === undefined || !hasCode(error, "not_found")) throw error;
      return this.#tasksAfter(project, undefined);
    }
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

function taskBody(task: TaskView, nowMs: number): Record<string, unknown> {
  const { usage } = task;
  return {
    task_id: task.id,
    status: task.status,
    is_cancelled: task.isCancelled,
    total_items: task.totalItems,
    counts: task.counts,
    created_at: task.createdWallMs,
    deadline_at: task.deadlineWallMs ?? null,
    finished_at: task.finishedWallMs ?? null,
    expected_end_at: task.expectedEndWallMs ?? null,
    slack_ms: slackMs(task, nowMs),
    held: task.held.map(taskHold),
    ...moneyBody(usage),
  };
}

/** Time left when it ended, or is expected to end; null without deadline or while nothing is known. */
function slackMs(task: TaskView, nowMs: number): number | null {
  const { deadlineWallMs, finishedWallMs, expectedEndWallMs } = task;
  if (deadlineWallMs === undefined) return null;
  const endMs = finishedWallMs ?? (expectedEndWallMs && Math.max(expectedEndWallMs, nowMs));
  return endMs === undefined ? null : deadlineWallMs - endMs;
}

function laneBody(lane: LaneStatus): Record<string, unknown> {
  const limits = [
    { name: "requests", use: lane.requests },
    { name: "tokens", use: lane.tokens },
    { name: "input tokens", use: lane.inputTokens },
    { name: "output tokens", use: lane.outputTokens },
  ].flatMap(({ name, use }) => (use === undefined ? [] : [{ name, used: use.used, limit: use.limit }]));
  return {
    provider: lane.provider,
    tier: lane.tier,
    family: lane.family,
    state: lane.state,
    limits,
    in_flight: lane.inFlight,
    in_flight_max: lane.inFlightMax,
    waiting: lane.waiting,
    cooldown_ms: Math.ceil(lane.cooldownMs),
    oversized: lane.oversized === undefined ? null : oversizedBody(lane.oversized),
  };
}

function oversizedBody({
  tokens,
  limit,
  waitMs,
}: NonNullable<LaneStatus["oversized"]>): Record<string, number> {
  return { tokens, limit, wait_ms: Math.ceil(waitMs) };
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
