/**
 * A worker's heartbeat: once a second it renews its lease, reads the fleet, and takes, makes and releases partitions.
 *
 *   entered -> beating ... -> leaving (takes nothing, releases everything, beats on) -> left
 *
 * While it leaves, it answers for partitions that drain, and so renews its lease and reads the fleet as before.
 *
 * While the database is away, no beat ends: the worker takes nothing, and after 6 s its directory is stale. All leases may have ended when it is back.
 * So a worker that has not read the fleet for some seconds takes and makes nothing for a moment, in which owners that live renew their leases: otherwise
 * the first one that reads would take the partitions of all, with their requests in flight.
 */
import type { Clock, Timer } from "../clock.ts";
import { PerigeeError } from "../errors.ts";
import type { FleetDirectory } from "./directory.ts";
import { inTime } from "./in_time.ts";
import type { OwnedPartitions } from "./owned_partitions.ts";
import { type PlacementStep, placementSteps } from "./placement.ts";
import type { FleetReading, WorkerRole, WorkerRows } from "./worker_rows.ts";

export interface MembershipOptions {
  readonly clock: Clock;
  readonly rows: Pick<WorkerRows, "id" | "beat" | "leave" | "sweep" | "makePartition">;
  readonly directory: Pick<FleetDirectory, "take" | "leave">;
  readonly owned: Pick<OwnedPartitions, "state" | "take" | "release" | "releaseAll">;
  readonly role: WorkerRole;
  readonly onNotice: (message: string) => void;
}

const BEAT_MS = 1_000;
const BEAT_MS_MIN = 100;
const SWEEP_MS = 3_600_000;
/** Without a reading for so long, the database was away, or this process stopped. */
const AWAY_MS = 3_000;
/** An owner connects again within 2 s (pg_connection.ts), and renews at once. */
const GRACE_MS = 3_000;

export class Membership {
  readonly #options: MembershipOptions;
  #timer: Timer | undefined;
  /** The beat that is under way. */
  #beating: Promise<void> | undefined;
  #phase: "working" | "leaving" | "left" = "working";
  /** Since when each free partition has been seen free. */
  readonly #freeSinceMs = new Map<number, number>();
  #idleSinceMs: number;
  /** Of the last reading; undefined before the first. */
  #readMs: number | undefined;
  /** When a reading came after a time without one. */
  #backMs = Number.NEGATIVE_INFINITY;
  #sweptMs = Number.NEGATIVE_INFINITY;
  /** Milliseconds until the next beat, 100 to 1,000: sooner when a lease is about to end, so that its partition is adopted at once. */
  #restMs = BEAT_MS;

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#idleSinceMs = options.clock.nowMs();
  }

  /** Resolves after the first beat. Rejects when the database refuses it. */
  async enter(): Promise<void> {
    await this.#beat();
    this.#later(this.#restMs);
  }

  /** Beats at once: something has changed in this process. */
  soon(): void {
    if (!this.#isLeaving) this.#later(0);
  }

  get #isLeaving(): boolean {
    return this.#phase !== "working";
  }

  /** Releases all partitions, then removes the worker's row. Never rejects. */
  async leave(): Promise<void> {
    const { owned, rows, directory } = this.#options;
    this.#phase = "leaving";
    directory.leave();
    this.#later(0); // tells the other workers, which then release nothing for this one
    await owned.releaseAll();
    this.#phase = "left";
    this.#timer?.cancel();
    if (this.#beating !== undefined) await this.#inTime(this.#beating);
    await this.#inTime(rows.leave());
  }

  /** The database may be away; the lease ends by itself then. */
  async #inTime(work: Promise<unknown>): Promise<void> {
    await inTime(this.#options.clock, BEAT_MS, work).catch(() => undefined);
  }

  #later(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#options.clock.timer(delayMs, () => {
      if (this.#beating !== undefined) return;
      const wasLeaving = this.#isLeaving;
      this.#beating = this.#beat()
        .catch((error: unknown) => this.#report(error))
        .finally(() => {
          this.#beating = undefined;
          const restMs = this.#isLeaving === wasLeaving ? this.#restMs : 0; // the others must know now that it leaves
          if (this.#phase !== "left") this.#later(restMs);
        });
    });
  }

  async #beat(): Promise<void> {
    const { clock, rows, directory } = this.#options;
    const startedMs = clock.nowMs();
    const reading = await rows.beat(this.#isLeaving);
    directory.take(reading, startedMs);
    const nowMs = clock.nowMs();
    if (nowMs - (this.#readMs ?? nowMs) >= AWAY_MS) this.#backMs = nowMs;
    this.#readMs = nowMs;
    this.#restMs = Math.min(BEAT_MS, Math.max(BEAT_MS_MIN, reading.endsInMs));
    if (clock.nowMs() - this.#sweptMs >= SWEEP_MS) {
      this.#sweptMs = clock.nowMs();
      await rows.sweep();
    }
    if (this.#isLeaving) return;
    for (const step of this.#steps(reading, startedMs)) await this.#do(step);
  }

  #steps(reading: FleetReading, nowMs: number): readonly PlacementStep[] {
    const { owned, role, rows } = this.#options;
    if (role === "api") return [];
    const state = owned.state;
    if (state.kept.length > 0) this.#idleSinceMs = nowMs;
    this.#noteFree(reading, nowMs);
    const workers = reading.workers.map(({ id, role: of, isLeaving }) => ({
      id,
      isTaker: of !== "api" && !isLeaving,
    }));
    const steps = placementSteps(
      { workers, partitions: reading.partitions },
      {
        ...{ ...state, id: rows.id, isLeaving: false },
        freeMs: (part) => nowMs - (this.#freeSinceMs.get(part) ?? nowMs),
        idleMs: nowMs - this.#idleSinceMs,
      },
    );
    return nowMs - this.#backMs < GRACE_MS ? steps.filter(({ kind }) => kind === "release") : steps;
  }

  #noteFree({ partitions }: FleetReading, nowMs: number): void {
    for (const { part, owner } of partitions) {
      if (owner !== undefined) this.#freeSinceMs.delete(part);
      else if (!this.#freeSinceMs.has(part)) this.#freeSinceMs.set(part, nowMs);
    }
  }

  async #do(step: PlacementStep): Promise<void> {
    const { owned, rows } = this.#options;
    if (this.#isLeaving) return;
    if (step.kind === "release") void owned.release(step.part);
    else {
      const part = step.kind === "take" ? step.part : await rows.makePartition();
      if (!this.#isLeaving) void owned.take(part); // it is free for another worker
    }
  }

  #report(error: unknown): void {
    if (error instanceof PerigeeError && error.code === "closed") return;
    this.#options.onNotice(
      `the fleet cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}
