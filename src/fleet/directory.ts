/**
 * The last reading of the fleet: who has which partition, and who has died since.
 *
 *   no reading -> fresh -> stale    (no new reading for 6 s, a lease: another worker may own this one's partitions by now)
 *                       -> fresh    (a new reading)
 */
import { setMaxListeners } from "node:events";
import type { Clock } from "../clock.ts";
import type { FleetState } from "../service/operate/fleet_state.ts";
import { LEASE_MS } from "../store/postgres/pg_partition.ts";
import type { FleetReading, WorkerRow } from "./worker_rows.ts";

/** Readings that callers ask for are at least so far apart. */
const READ_AGAIN_MS = 100;

export class FleetDirectory {
  readonly #clock: Clock;
  readonly #read: () => Promise<FleetReading>;
  #reading: Pick<FleetReading, "workers" | "partitions"> = { workers: [], partitions: [] };
  #owners = new Map<number, WorkerRow>();
  /** When the last reading was begun. */
  #readMs = Number.NEGATIVE_INFINITY;
  #rereading: Promise<void> | undefined;
  #isLeaving = false;
  readonly #deaths = new Map<string, AbortController>();

  constructor(clock: Clock, read: () => Promise<FleetReading>) {
    this.#clock = clock;
    this.#read = read;
  }

  /** True from when the worker begins to leave. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** False once a lease may have ended since the last reading was begun, by this process's clock. */
  get isFresh(): boolean {
    return this.#clock.nowMs() - this.#readMs < LEASE_MS;
  }

  /** Milliseconds until the lease may have ended; 0 afterwards. */
  get #leaseLeftMs(): number {
    return Math.max(0, Math.round(LEASE_MS - (this.#clock.nowMs() - this.#readMs)));
  }

  /** Takes a reading that was begun at `readMs` of the clock, and aborts `deathOf` for workers that are no longer in it. */
  take(reading: FleetReading, readMs: number): void {
    this.#readMs = readMs;
    this.#reading = reading;
    const living = new Map(reading.workers.map((worker) => [worker.id, worker]));
    this.#owners = new Map();
    for (const { part, owner } of reading.partitions) {
      const worker = owner === undefined ? undefined : living.get(owner);
      if (worker !== undefined) this.#owners.set(part, worker);
    }
    for (const [id, death] of this.#deaths) {
      if (living.has(id)) continue;
      this.#deaths.delete(id);
      death.abort();
    }
  }

  /** The worker begins to leave: it is not ready any more. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** The living worker that owns a partition; undefined without one. */
  ownerOf(part: number): WorkerRow | undefined {
    return this.#owners.get(part);
  }

  /** Partitions that a living worker has. */
  get ownedParts(): readonly number[] {
    return [...this.#owners.keys()];
  }

  /** As of the last reading, seen by the worker of an id. */
  stateFor(id: string): FleetState {
    const { workers, partitions } = this.#reading;
    return {
      worker: workers.find((worker) => worker.id === id)?.name ?? "",
      leaseLeftMs: this.#leaseLeftMs,
      workers: workers.map((worker) => ({
        ...worker,
        parts: partitions.filter(({ owner }) => owner === worker.id).map(({ part }) => part),
      })),
      free: partitions.filter(({ owner }) => owner === undefined).map(({ part }) => part),
    };
  }

  /** Aborts when a reading no longer has the worker. */
  deathOf(id: string): AbortSignal {
    let known = this.#deaths.get(id);
    if (known === undefined) {
      known = new AbortController();
      setMaxListeners(0, known.signal); // one for each request at that worker
      this.#deaths.set(id, known);
    }
    return known.signal;
  }

  /** Resolves after a new reading, 100 ms or more after the call that asked for it, or when that reading failed. Never rejects. */
  async renewed(): Promise<void> {
    this.#rereading ??= this.#again().finally(() => {
      this.#rereading = undefined;
    });
    await this.#rereading;
  }

  async #again(): Promise<void> {
    await this.#clock.sleep(READ_AGAIN_MS);
    const startedMs = this.#clock.nowMs();
    try {
      this.take(await this.#read(), startedMs);
    } catch {
      // The heartbeat reports it.
    }
  }
}
