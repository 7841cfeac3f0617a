/**
 * What this process has done since it started, in sums: per project for the operator page, in all for the metrics.
 *
 *   engine -> attempted, settled -> sums -> read by metrics on request, and by the feed
 *
 * Only counters: nothing here is computed before a call asks for it, and there is no timer. The last minutes are kept in rings
 * of one second a place, so that a page that is opened has a past to show.
 *
 * Limits: 10,000 projects have sums of their own, 300 seconds are kept.
 *
 * Hot path: some additions an attempt and an item, about 0.2 us each (`bench/jobs/engine.ts` does not show them).
 */
import type { Clock } from "../../clock.ts";
import type { AttemptReport, EngineObserver, SettledReport } from "../../engine/journal/observer.ts";
import type { Money } from "../../price/money.ts";
import type { LaneKey } from "../../queue/lanes.ts";

/** Seconds of the past that are kept. */
export const SECONDS_KEPT = 300;
const PROJECTS_MAX = 10_000;
/** Lanes that a project is remembered to have used. */
const LANES_MAX = 200;
/** Sums over settled items. */
export interface ActivitySums extends Money {
  /** Items by how they ended: `completed`, or the code of their failure. */
  readonly outcomes: ReadonlyMap<string, number>;
  /** Of the completed ones, those answered from a cache of answers. */
  readonly cached: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** What was done in each of the last seconds, the oldest first; the present second is left out. */
export interface RecentSeconds {
  /** Unix time of the first entry, whole seconds. */
  readonly startSeconds: number;
  readonly items: readonly number[];
  readonly tokens: readonly number[];
}

/** Sums and rings of one project, or of all. */
export class ActivityTally implements ActivitySums {
  readonly outcomes: Map<string, number> = new Map();
  cached = 0;
  inputTokens = 0;
  outputTokens = 0;
  listUsd = 0;
  usd = 0;
  billedUsd = 0;
  ambiguousUsd = 0;
  readonly lanes: Set<LaneKey> = new Set();
  readonly #recent = new RecentRings();

  add(report: SettledReport, second: number): void {
    const outcome = report.code ?? report.status;
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
    if (report.isCached === true) this.cached += 1;
    this.inputTokens += report.inputTokens;
    this.outputTokens += report.outputTokens;
    this.listUsd += report.listUsd;
    this.usd += report.usd;
    this.billedUsd += report.billedUsd;
    this.ambiguousUsd += report.ambiguousUsd;
    if (report.status === "cancelled" || report.status === "expired") return; // nothing was put through
    this.#recent.add(second, report.inputTokens + report.outputTokens);
  }

  /** The `count` seconds before `second`. */
  recent(second: number, count: number): RecentSeconds {
    return this.#recent.read(second, count);
  }
}

/** Items and tokens of each of the last seconds: one place a second, which is emptied when it comes round again. */
class RecentRings {
  readonly #items = new Float64Array(SECONDS_KEPT);
  readonly #tokens = new Float64Array(SECONDS_KEPT);
  /** The second that was written last. */
  #second = 0;

  /** Adds one item. */
  add(second: number, tokens: number): void {
    const at = this.#turn(second);
    this.#items[at] = (this.#items[at] ?? 0) + 1;
    this.#tokens[at] = (this.#tokens[at] ?? 0) + tokens;
  }

  read(second: number, count: number): RecentSeconds {
    const startSeconds = second - count;
    const read = (ring: Float64Array): number[] =>
      Array.from({ length: count }, (_, index) => {
        const asked = startSeconds + index;
        const isKept = asked <= this.#second && asked > this.#second - SECONDS_KEPT;
        return isKept ? (ring[asked % SECONDS_KEPT] ?? 0) : 0;
      });
    return { startSeconds, items: read(this.#items), tokens: read(this.#tokens) };
  }

  /** The place of a second, after emptying the places of the seconds since the last one. */
  #turn(second: number): number {
    if (second > this.#second) {
      const first = Math.max(this.#second + 1, second - SECONDS_KEPT + 1);
      for (let passed = first; passed <= second; passed += 1) {
        this.#items[passed % SECONDS_KEPT] = 0;
        this.#tokens[passed % SECONDS_KEPT] = 0;
      }
      this.#second = second;
    }
    return this.#second % SECONDS_KEPT; // a wall clock that was put back counts into the second it left
  }
}

/** Counts what an engine reports; one for a process. */
export class Activity implements Pick<EngineObserver, "attempted" | "settled"> {
  readonly total: ActivityTally = new ActivityTally();
  /** Attempts by `<provider> <outcome>`; providers are configured, so these are few. */
  readonly attempts: Map<string, number> = new Map();
  readonly #clock: Pick<Clock, "wallMs">;
  readonly #projects = new Map<string, ActivityTally>();

  constructor(clock: Pick<Clock, "wallMs">) {
    this.#clock = clock;
  }

  attempted({ project, lane, code }: AttemptReport): void {
    const outcome = `${lane.slice(0, lane.indexOf(":"))} ${code ?? "completed"}`;
    this.attempts.set(outcome, (this.attempts.get(outcome) ?? 0) + 1);
    const lanes = this.#of(project)?.lanes;
    if (lanes !== undefined && lanes.size < LANES_MAX) lanes.add(lane);
  }

  settled(report: SettledReport): void {
    const second = this.second();
    this.total.add(report, second);
    this.#of(report.project)?.add(report, second);
  }

  /** Undefined before its first attempt or item. */
  project(project: string): ActivityTally | undefined {
    return this.#projects.get(project);
  }

  /** Unix time in whole seconds: the place in the rings. */
  second(): number {
    return Math.floor(this.#clock.wallMs() / 1_000);
  }

  #of(project: string): ActivityTally | undefined {
    const known = this.#projects.get(project);
    if (known !== undefined || this.#projects.size >= PROJECTS_MAX) return known;
    const made = new ActivityTally();
    this.#projects.set(project, made);
    return made;
  }
}
