/**
 * Executions through kills, power cuts, full disks, cancellations and slow commits: all that was acknowledged has one end,
 * in time, and nothing that does harm when repeated is done twice. A single seed: PERIGEE_SEED=17 npx vitest run test/simulation/executions
 *
 * A satellite here is the other side as well: `done` is what it has done, which the runtime may only hear of, or not.
 */
import { describe, expect, it } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { PerigeeError } from "../../src/errors.ts";
import type { Executions, ExecutionView } from "../../src/satellites/sdk/execution.ts";
import type { Satellite, SatelliteCall } from "../../src/satellites/sdk/satellite.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { createRandom } from "../../src/testing/random.ts";
import { mortal } from "../engine/world.ts";
import { CALLER, ExecutionWorld, requestOf, satellite } from "../satellites/execution_world.ts";

const given = process.env["PERIGEE_SEED"];
const count = Number(process.env["PERIGEE_SEEDS"] ?? 30);
const seeds = given === undefined ? Array.from({ length: count }, (_, index) => index + 1) : [Number(given)];

const PROJECTS = ["one", "two", "three"] as const;
const SLAS = ["5s", "30s", "10m", "1h"] as const;
/** Milliseconds by which an end may be later than the deadline. */
const LATE_MS = 1_000;
/** A commit takes at most so long here. */
const COMMIT_MS = 400;

class Simulation {
  readonly random: () => number;
  readonly world: ExecutionWorld;
  /** What was acknowledged, by id. */
  readonly accepted = new Map<string, ExecutionView>();
  /** Ends that were reported or seen, by id. */
  readonly ends = new Map<string, ExecutionView>();
  /** How often the other side has done it, by id. */
  readonly done = new Map<string, number>();
  readonly running = new Map<string, number>();
  clock: Clock;
  life = 0;

  constructor(seed: number) {
    this.random = createRandom(seed);
    const bounds = { places: 1 + this.below(6), graceMs: 500, closeMs: 2_000 };
    this.world = new ExecutionWorld({
      seed,
      bounds,
      commitMs: this.random() < 0.5 ? 1 + this.below(COMMIT_MS) : 0,
    });
    this.clock = this.world.clock;
    this.world.add(this.satellite("safe", true));
    this.world.add(this.satellite("harmful", false));
  }

  below(bound: number): number {
    return Math.floor(this.random() * bound);
  }

  satellite(name: string, isRepeatable: boolean): Satellite {
    return satellite(name, {
      isRepeatable,
      attemptMsMax: 20_000,
      destination: ({ input }) => (input["host"] === 0 ? undefined : `host${input["host"]}`),
      destinationConcurrency: 2,
      run: (call) => this.attempt(call, isRepeatable),
    });
  }

  /** Takes a while, does it or does not, and says so, or does not. */
  async attempt({ executionId: id, signal, input, clock }: SatelliteCall, isRepeatable: boolean) {
    const { life } = this;
    const place = `${life} ${input["host"]}`;
    if (input["host"] !== 0) {
      this.running.set(place, (this.running.get(place) ?? 0) + 1);
      expect(this.running.get(place)).toBeLessThanOrEqual(4); // 2 for each of the two satellites
    }
    try {
      const what = this.random();
      const takesMs = this.random() < 0.5 ? this.below(20) : this.below(what < 0.05 ? 60_000 : 2_000);
      await clock.sleep(takesMs, {
        signal: what < 0.03 ? undefined : signal,
      });
      if (life !== this.life) return await new Promise<never>(() => undefined); // its process is dead
      if (what < 0.2)
        throw new SatelliteError("refused", "busy", "busy", { retryAfterMs: this.below(5_000) });
      if (what < 0.25) throw new SatelliteError("not_sent", "down", "down");
      if (what < 0.3) throw new SatelliteError("permanent", "no", "no");
      this.done.set(id, (this.done.get(id) ?? 0) + 1);
      if (!isRepeatable) expect(this.done.get(id), `${id} was done twice`).toBe(1);
      if (what < 0.35) throw new SatelliteError("ambiguous", "lost", "lost");
      if (what < 0.38) throw new Error("a fault of its own");
      return { done: true };
    } finally {
      if (input["host"] !== 0) this.running.set(place, (this.running.get(place) ?? 1) - 1);
    }
  }

  seen(view: ExecutionView): void {
    if (view.status === "pending") {
      expect(this.ends.get(view.id), `${view.id} was final and is pending`).toBeUndefined();
      return;
    }
    const { progress: _progress, phase: _phase, ...end } = view;
    const before = this.ends.get(view.id);
    if (before !== undefined) expect(end).toEqual(before);
    this.ends.set(view.id, end);
    const downMs = this.down.get(view.id) ?? Number.POSITIVE_INFINITY; // its caller does not know that it was accepted
    expect(view.updatedWallMs).toBeLessThanOrEqual(view.deadlineWallMs + LATE_MS + COMMIT_MS + downMs);
  }

  /** How long no process was there, or none could write, before an execution could end: by id. */
  readonly down = new Map<string, number>();

  noteDown(ms: number): void {
    for (const id of this.accepted.keys()) this.down.set(id, (this.down.get(id) ?? 0) + ms);
  }

  async submit(executions: Executions): Promise<void> {
    const caller = { ...CALLER, project: PROJECTS[this.below(3)] ?? "one" };
    const name = this.random() < 0.5 ? "safe" : "harmful";
    const sla = SLAS[this.below(SLAS.length)] ?? "1h";
    const view = await executions.submit(caller, requestOf(name, { input: { host: this.below(3) }, sla }));
    this.accepted.set(view.id, view);
    this.down.set(view.id, 0);
  }

  async disturb(executions: Executions): Promise<void> {
    const some = [...this.accepted.values()][this.below(this.accepted.size)];
    if (this.random() < 0.1) this.world.store.failNext("disk_full", 1 + this.below(3));
    if (some === undefined) return;
    const view =
      this.random() < 0.3
        ? await executions.cancel(some.project, some.id)
        : await executions.execution(some.project, some.id);
    this.seen(view);
  }

  /** One life of the process: works for a while and is killed, or closes. */
  async live(): Promise<void> {
    this.life += 1;
    const { life, world } = this;
    const process = mortal(world.clock);
    const isAlive = (): boolean => life === this.life;
    const opening = world.open(process.clock).then((executions) => {
      executions.onFinished((view) => {
        if (isAlive()) this.seen(view);
      });
      return executions;
    });
    await world.clock.advance(100);
    const executions = await opening;
    const steps = 5 + this.below(40);
    for (let step = 0; step < steps; step += 1) {
      const work = this.random() < 0.6 ? this.submit(executions) : this.disturb(executions);
      work.catch((error: unknown) => {
        if (isAlive() && !(error instanceof PerigeeError && ["disk_full", "closed"].includes(error.code)))
          world.faults.push(error);
      });
      if (this.random() < 0.7) await world.clock.advance(this.below(1_500));
    }
    if (this.random() < 0.3) {
      const closing = executions.close();
      await world.clock.advance(2_500);
      await closing;
    }
    this.life += 1;
    process.kill();
    world.crash();
    const downMs = this.below(5_000);
    this.noteDown(downMs + 3_000);
    await world.clock.advance(downMs);
  }

  async run(): Promise<void> {
    const { world } = this;
    const lives = 2 + this.below(4);
    for (let one = 0; one < lives; one += 1) await this.live();
    this.life += 1;
    const opening = world.open();
    await world.clock.advance(100);
    const executions = await opening;
    executions.onFinished((view) => this.seen(view));
    await world.clock.advance(3_600_000 + 60_000);
    expect(executions.counts()).toEqual({ queued: 0, running: 0 });
    for (const { id, project } of this.accepted.values()) {
      const end = await executions.execution(project, id);
      expect(end.status, id).not.toBe("pending");
      this.seen(end);
      if (end.status === "completed") expect(this.done.get(id) ?? 0).toBeGreaterThan(0);
      expect(end.retries).toBeLessThan(8 + lives); // closing processes use none up
    }
    expect(world.faults).toEqual([]);
    for (const held of world.destinations.held.values()) expect(held).toBeGreaterThanOrEqual(0);
    for (const project of PROJECTS) {
      const { items } = await executions.list(project, { limit: 1_000 });
      for (const view of items) this.seen(view);
    }
    await executions.close();
  }
}

describe("executions keep their promises through kills, power cuts and full disks", () => {
  for (const seed of seeds) it(`seed ${seed}`, () => new Simulation(seed).run());
});
