/** Which partitions workers take, make and release: single decisions, and laws over fleets whose workers come, die and leave. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type FleetRows,
  HANDOVER_MS,
  type OwnState,
  type PlacementStep,
  placementSteps,
  TURN_MS,
} from "../../src/fleet/placement.ts";

const workers = (...ids: readonly string[]): FleetRows["workers"] =>
  ids.map((id) => ({ id, isTaker: !id.startsWith("api") }));
const held = (...owners: readonly (string | undefined)[]): FleetRows["partitions"] =>
  owners.map((owner, index) => ({ part: index + 1, owner }));
const own = (id: string, kept: readonly number[] = [], more: Partial<OwnState> = {}): OwnState => ({
  ...{ id, kept, isLeaving: false, closing: [], barred: new Set<number>(), freeMs: () => 0, idleMs: 0 },
  ...more,
});

describe("a worker", () => {
  it("makes a partition when there is none", () => {
    expect(placementSteps({ workers: workers("a"), partitions: [] }, own("a"))).toEqual([{ kind: "make" }]);
  });

  it("takes a free partition before it makes one", () => {
    expect(placementSteps({ workers: workers("a"), partitions: held(undefined) }, own("a"))).toEqual([
      { kind: "take", part: 1 },
    ]);
  });

  it("adopts the partition of a dead one when it has the fewest, and else only after its turn", () => {
    const rows = { workers: workers("a", "b"), partitions: held("a", "b", undefined) };
    expect(placementSteps(rows, own("a", [1]))).toEqual([{ kind: "take", part: 3 }]);
    expect(placementSteps(rows, own("b", [2]))).toEqual([]);
    expect(placementSteps(rows, own("b", [2], { freeMs: () => TURN_MS }))).toEqual([
      { kind: "take", part: 3 },
    ]);
  });

  it("releases its youngest partition when a worker without one arrives, which waits for it", () => {
    const rows = { workers: workers("a", "b"), partitions: held("a", "a") };
    expect(placementSteps(rows, own("a", [2, 1]))).toEqual([{ kind: "release", part: 1 }]);
    expect(placementSteps(rows, own("b"))).toEqual([]);
    expect(placementSteps(rows, own("a", [2], { closing: [1] }))).toEqual([]);
    expect(placementSteps(rows, own("b", [], { idleMs: HANDOVER_MS }))).toEqual([{ kind: "make" }]);
  });

  it("waits for a partition of a worker that is leaving, and makes one where more arrive than it has", () => {
    const rows = (...ids: readonly string[]) => ({
      workers: [{ id: "a", isTaker: false }, ...workers(...ids)],
      partitions: held("a"),
    });
    expect(placementSteps(rows("b"), own("b"))).toEqual([]);
    expect(placementSteps(rows("b"), own("b", [], { idleMs: HANDOVER_MS }))).toEqual([{ kind: "make" }]);
    expect(placementSteps(rows("b", "c"), own("b"))).toEqual([]);
    expect(placementSteps(rows("b", "c"), own("c"))).toEqual([{ kind: "make" }]);
  });

  it("waits on for one that is not released in time, where there are two for each worker", () => {
    const late = own("b", [], { idleMs: HANDOVER_MS });
    expect(placementSteps({ workers: workers("a", "b"), partitions: held("a", "a", "a") }, late)).toEqual([
      { kind: "make" },
    ]);
    const many = held("a", "a", "a", "a");
    expect(placementSteps({ workers: workers("a", "b"), partitions: many }, late)).toEqual([]);
    expect(placementSteps({ workers: workers("a", "b", "api"), partitions: many }, late)).toEqual([]);
  });

  it("makes none while it closes one that it has lost, and then takes that one", () => {
    const rows = { workers: workers("a", "b"), partitions: held("a", undefined) };
    expect(placementSteps(rows, own("b", [], { closing: [2], idleMs: HANDOVER_MS }))).toEqual([]);
    expect(placementSteps(rows, own("b"))).toEqual([{ kind: "take", part: 2 }]);
  });

  it("keeps its partitions when only a router arrives", () => {
    const rows = { workers: workers("a", "api"), partitions: held("a", "a") };
    expect(placementSteps(rows, own("a", [1, 2]))).toEqual([]);
    expect(placementSteps(rows, own("api"))).toEqual([]);
  });

  it("makes one of its own where the only free one could not be opened", () => {
    const rows = { workers: workers("a"), partitions: held(undefined) };
    expect(placementSteps(rows, own("a", [], { barred: new Set([1]) }))).toEqual([{ kind: "make" }]);
  });

  it("releases everything when it leaves, and takes nothing", () => {
    const rows = { workers: workers("b"), partitions: held("a", undefined) };
    expect(placementSteps(rows, own("a", [1], { isLeaving: true }))).toEqual([{ kind: "release", part: 1 }]);
  });
});

interface ModelWorker {
  readonly id: string;
  kept: number[];
  closing: number[];
  isAlive: boolean;
  isLeaving: boolean;
}

/** Partitions as the database has them, and workers that act on rows that may be old. */
class ModelFleet {
  readonly owners = new Map<number, string | undefined>();
  readonly workers: ModelWorker[] = [];
  readonly #freeSince = new Map<number, number>();
  #round = 0;

  add(): void {
    const id = `w${String(this.workers.length).padStart(3, "0")}`;
    this.workers.push({ id, kept: [], closing: [], isAlive: true, isLeaving: false });
  }

  kill(worker: ModelWorker): void {
    worker.isAlive = false;
    for (const [part, owner] of this.owners) if (owner === worker.id) this.#free(part);
  }

  rows(): FleetRows {
    return {
      workers: this.living.map(({ id, isLeaving }) => ({ id, isTaker: !isLeaving })),
      partitions: [...this.owners].map(([part, owner]) => ({ part, owner })),
    };
  }

  get living(): ModelWorker[] {
    return this.workers.filter(({ isAlive }) => isAlive);
  }

  /** The worker acts on rows; a taking succeeds only when the partition is free now. Returns what it decided. */
  act(worker: ModelWorker, rows: FleetRows): readonly PlacementStep[] {
    const steps = placementSteps(rows, {
      ...own(worker.id, worker.kept, { closing: worker.closing, isLeaving: worker.isLeaving }),
      freeMs: (part) => 1_000 * (this.#round - (this.#freeSince.get(part) ?? this.#round)),
    });
    for (const step of steps) {
      if (step.kind === "make") this.#take(worker, this.owners.size + 1);
      else if (step.kind === "take" && this.owners.get(step.part) === undefined)
        this.#take(worker, step.part);
      else if (step.kind === "release") {
        worker.kept = worker.kept.filter((part) => part !== step.part);
        worker.closing.push(step.part);
      }
    }
    return steps;
  }

  /** A second goes by: what was being released is free. */
  tick(): void {
    this.#round += 1;
    for (const worker of this.living) for (const part of worker.closing.splice(0)) this.#free(part);
  }

  #take(worker: ModelWorker, part: number): void {
    this.owners.set(part, worker.id);
    this.#freeSince.delete(part);
    worker.kept.push(part);
  }

  #free(part: number): void {
    this.owners.set(part, undefined);
    this.#freeSince.set(part, this.#round);
  }
}

const event = fc.record({
  kind: fc.constantFrom("add", "kill", "leave", "act", "act", "act", "tick", "look"),
  which: fc.nat(20),
});

describe("a fleet", () => {
  it("settles after any history: each partition has one worker, each worker at least one partition, and nobody does more", () => {
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 60 }),
        fc.array(fc.nat(20), { maxLength: 40 }),
        (events, picks) => {
          const fleet = new ModelFleet();
          fleet.add();
          let old = fleet.rows();
          for (const { kind, which } of events) {
            const { living } = fleet;
            const worker = living[which % Math.max(1, living.length)];
            if (kind === "add" && fleet.workers.length < 8) fleet.add();
            else if (kind === "tick") fleet.tick();
            else if (kind === "look") old = fleet.rows();
            else if (worker !== undefined && kind === "act")
              fleet.act(worker, which % 2 === 0 ? old : fleet.rows());
            else if (worker !== undefined && living.length > 1 && kind === "kill") fleet.kill(worker);
            else if (worker !== undefined && living.length > 1 && kind === "leave") worker.isLeaving = true;
          }
          for (const worker of fleet.living) if (worker.isLeaving) fleet.act(worker, fleet.rows());
          fleet.tick();
          for (const worker of fleet.living) if (worker.isLeaving) fleet.kill(worker);
          if (fleet.living.length === 0) fleet.add();
          for (let round = 0; round < 60; round += 1) {
            const seen = fleet.rows();
            const start = picks[round % Math.max(1, picks.length)] ?? 0;
            fleet.living.forEach((_, index) => {
              const worker = fleet.living[(start + index) % fleet.living.length];
              if (worker !== undefined) fleet.act(worker, index % 2 === 0 ? seen : fleet.rows());
            });
            fleet.tick();
          }
          const counts = fleet.living.map(
            ({ id }) => [...fleet.owners.values()].filter((owner) => owner === id).length,
          );
          expect([...fleet.owners.values()].filter((owner) => owner === undefined)).toEqual([]);
          expect(counts.filter((count) => count === 0)).toEqual([]);
          expect(fleet.living.flatMap((worker) => fleet.act(worker, fleet.rows()))).toEqual([]);
        },
      ),
    );
  });

  it("never has a worker release its only partition, or more than others need", () => {
    const owner = fc.constantFrom("a", "b", "c", undefined);
    fc.assert(
      fc.property(
        fc.array(owner, { maxLength: 8 }),
        fc.subarray(["a", "b", "c", "d"], { minLength: 1 }),
        (owners, living) => {
          const rows = { workers: workers(...living), partitions: held(...owners) };
          let released = 0;
          for (const id of living) {
            const kept = rows.partitions.filter((each) => each.owner === id).map(({ part }) => part);
            const gives = placementSteps(rows, own(id, kept)).filter(({ kind }) => kind === "release").length;
            expect(gives).toBeLessThan(Math.max(1, kept.length));
            released += gives;
          }
          const idle = living.filter((id) => !owners.some((owner) => owner === id)).length;
          expect(released).toBeLessThanOrEqual(idle);
        },
      ),
    );
  });
});
