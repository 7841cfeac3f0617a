/**
 * What runs share inside one engine.
 */
import type { Clock } from "../clock.ts";
import type { Disk } from "../disk.ts";
import type { PerigeeError } from "../errors.ts";
import type { PriceBook } from "../price/price_book.ts";
import type { AnswerMeans } from "../queue/answer_means.ts";
import type { Measurer } from "../shard/pool.ts";
import type { LearntStore } from "../store/learnt.ts";
import type { Store } from "../store/store.ts";
import type { EngineConfig } from "./config/config.ts";
import type { SharedCaps } from "./files/shared_caps.ts";
import type { Backlog } from "./items/backlog.ts";
import type { HeldEnd, HoldReason, RunHolds } from "./items/holds.ts";
import type { ItemOwner } from "./items/item_owner.ts";
import type { EngineObserver } from "./journal/observer.ts";
import type { Recorder } from "./journal/recorder.ts";
import type { Room } from "./journal/room.ts";
import type { Arrivals } from "./lanes/arrivals.ts";
import type { Lane } from "./lanes/lane.ts";
import type { Forecast, NewWork } from "./lanes/outlook.ts";
import type { Sender } from "./lanes/sender.ts";
import type { ExpectedDone, WorkTime } from "./lanes/work_times.ts";
import type { ModelWork } from "./learnt/expected_usage.ts";

/** Built by `engine.ts`, read by runs. */
export interface EngineParts {
  readonly config: EngineConfig;
  readonly clock: Clock;
  readonly disk: Disk;
  readonly store: Store;
  /** Figures that were learnt about providers, for later engines. */
  readonly learnt: LearntStore;
  readonly measurer: Measurer;
  /** All writes except those of the recorder wait here for a full disk. */
  readonly room: Room;
  readonly recorder: Recorder;
  readonly backlog: Backlog;
  /** Where runs bring what they have read. */
  readonly arrivals: Arrivals;
  readonly sender: Sender;
  /** What was learnt of answers. */
  readonly answers: AnswerMeans;
  readonly prices: PriceBook;
  readonly caps: SharedCaps;
  readonly observer: EngineObserver | undefined;
  /** Names and outputs of runs at work: no two may share one. */
  readonly atWork: Set<string>;
  readonly dataDir: string;
  /** Notifies the operator of what no call throws. */
  readonly notice: (message: string) => void;
  lanes(): Iterable<Lane>;
  /** When new work would be done, beside what waits; an estimate. */
  forecast(work: NewWork): Forecast;
  /** Items of a project that modules above have accepted and no run has read, with a deadline (monotonic) of at most so much. */
  unreadItems(project: string, deadlineMs: number): number;
  /** Has such items of a module counted from now on, too. */
  countUnread(count: EngineParts["unreadItems"]): void;
  /** When work is expected to be done beside what waits. */
  expectedDone(work: NewWork): ExpectedDone;
  /** How long work takes on each of its models, when nothing else waits. */
  workTimes(works: readonly ModelWork[]): ReadonlyMap<string, WorkTime>;
  /** How long what is left of a run takes; undefined while nothing of it waits in a lane, Infinity while nobody knows. */
  leftMs(owner: ItemOwner): number | undefined;
  /** Stops lanes from sending for a run and rejects what waits. */
  dropRun(owner: ItemOwner): void;
  /** What holds the items of a run; with the next tries of its next call if it `isStopping`. */
  holdsOf(owner: ItemOwner, isStopping?: boolean): RunHolds;
  /** How a held item of a model ends where its caller does not want to wait; undefined when no lane holds it. */
  heldEndOf(model: string): HeldEnd | undefined;
  /** Whether nothing of a model is sent but probes, or nothing at all: its provider asked to wait, or it or its key is missing. */
  isStopped(model: string): boolean;
  /** Whether the end of a run depends on what holds its items, or on space on the disk: nobody knows when that is over. */
  isEndHeld(owner: ItemOwner): boolean;
  /** Calls back when a lane is held, or no longer; returns how to stop listening. */
  onHold(listener: () => void): () => void;
  /** What held lines of runs for that reason has changed: they are read again. */
  wakeHeld(reason: HoldReason): void;
  /** Where the open items of a run wait, as text, if nothing continues with them by itself; otherwise undefined. */
  standstill(owner: ItemOwner): readonly string[] | undefined;
  /** Why nothing can be recorded at the moment; undefined when it can. */
  storageWait(): string | undefined;
  /** Calls back when the engine cannot go on; returns how to stop listening. */
  onFailure(listener: (error: PerigeeError) => void): () => void;
}
