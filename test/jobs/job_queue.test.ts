/**
 * Jobs from their acceptance to their end, on a store that can crash and a clock of the test's.
 */
import { describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import type {
  AttemptEnd,
  FailedAttempt,
  JobEnd,
  JobFacts,
  JobRetries,
  JobSender,
  Prepared,
  ReadyJob,
} from "../../src/jobs/job.ts";
import { JobQueue } from "../../src/jobs/job_queue.ts";
import { type JobForm, JobRecords } from "../../src/jobs/job_records.ts";
import type { RecordChange } from "../../src/store/records.ts";
import { createCrashableStore } from "../../src/testing/crashable_store.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { CountedDestinations } from "./counted_destinations.ts";

const FORM: JobForm<JobFacts> = {
  collections: { shown: "job", open: "job_open", notes: "job_notes" },
  parentOf: () => ({ shown: "", open: "" }),
  bodyOf: (_facts, end) => ({ status: end?.status ?? "pending" }),
  keepsOutput: true,
};

const DONE: AttemptEnd = { kind: "completed", output: { done: true } };

function failing(failure: FailedAttempt["failure"], code: string): AttemptEnd {
  return { kind: "failed", failed: { failure, code, message: code } };
}

class JobWorld implements JobSender<JobFacts> {
  readonly clock = new FakeClock();
  readonly store = createCrashableStore({
    random: () => this.clock.random(),
    clock: this.clock,
    commitMs: 10,
  });
  readonly commits: (readonly RecordChange[])[] = [];
  readonly attempts: { readonly number: number; readonly atMs: number }[] = [];
  readonly ends: JobEnd[] = [];
  readonly faults: unknown[] = [];
  retries: JobRetries = { attemptsMax: 8, isRepeatable: true };
  run: () => AttemptEnd | Promise<AttemptEnd> = () => DONE;
  prepared: (() => Prepared) | undefined;
  destinations = new CountedDestinations();

  async open(storesIntents = true): Promise<JobQueue<JobFacts>> {
    const store = await this.store.open();
    const change = store.change.bind(store);
    store.change = async (changes) => {
      this.commits.push(changes);
      await change(changes);
    };
    const limits = { placesMax: 4, groupPendingMax: 100, pendingMax: 100, closeMs: 1_000, storesIntents };
    const { clock, destinations } = this;
    const queue = new JobQueue({
      clock,
      log: new JobRecords(store, FORM),
      sender: this,
      destinations,
      limits,
    });
    await this.clock.runUntilSettled(queue.start());
    return queue;
  }

  facts(id: string, given: Partial<JobFacts> = {}): JobFacts {
    const createdWallMs = this.clock.wallMs();
    const deadlineWallMs = createdWallMs + 3_600_000;
    return { id, project: "one", createdWallMs, deadlineWallMs, destination: undefined, ...given };
  }

  ready(): ReadyJob {
    return {
      ok: true,
      retries: this.retries,
      run: async (attempt) => {
        this.attempts.push({ number: attempt.number, atMs: this.clock.nowMs() });
        return await this.run();
      },
    };
  }

  groupOf(): string {
    return "all";
  }

  async prepare(): Promise<Prepared> {
    return this.prepared?.() ?? this.ready();
  }

  ended(_facts: JobFacts, end: JobEnd): void {
    this.ends.push(end);
  }

  fault(error: unknown): void {
    this.faults.push(error);
  }
}

const GIVEN = new Uint8Array([1]);

describe("a job that can begin at once", () => {
  it("is durable with its intent in one commit, and its end is the next", async () => {
    const world = new JobWorld();
    const queue = await world.open();
    const accepting = queue.accept(world.facts("a"), GIVEN, world.ready());
    await world.clock.advance(9);
    expect(world.attempts).toEqual([]); // not before it is durable
    await world.clock.advance(100);
    await accepting;
    expect(world.commits).toHaveLength(2);
    expect(world.ends).toMatchObject([{ status: "completed", attempts: 1 }]);
  });

  it("is accepted before its intent when repeating it does harm, so that its acceptance alone puts nothing in doubt", async () => {
    const world = new JobWorld();
    world.retries = { attemptsMax: 8, isRepeatable: false };
    const queue = await world.open();
    await world.clock.runUntilSettled(queue.accept(world.facts("a"), GIVEN, world.ready()));
    expect(world.attempts).toEqual([]);
    await world.clock.advance(100);
    const kinds = world.commits.map((changes) => changes.map(({ kind }) => kind));
    expect(kinds).toEqual([["insert", "insert"], ["put"], ["put", "delete"]]);
    expect(world.ends).toMatchObject([{ status: "completed", attempts: 1 }]);
  });

  it("waits like the others when no place is free", async () => {
    const world = new JobWorld();
    world.run = () => new Promise(() => undefined);
    const queue = await world.open();
    const accepting = ["a", "b", "c", "d"].map((id) => queue.accept(world.facts(id), GIVEN, world.ready()));
    await world.clock.advance(100);
    await Promise.all(accepting);
    expect(world.attempts).toHaveLength(3); // a project leaves one of four places
    expect(queue.counts).toEqual({ queued: 1, running: 3 });
  });

  it("takes its intent back when the queue closes before it begins", async () => {
    const world = new JobWorld();
    const queue = await world.open();
    const accepting = queue.accept(world.facts("a"), GIVEN, world.ready());
    const closing = queue.close();
    await world.clock.advance(100);
    await Promise.all([accepting, world.clock.runUntilSettled(closing)]);
    expect(world.attempts).toEqual([]);
    world.store.crash();
    await world.open();
    await world.clock.advance(100);
    expect(world.attempts.map(({ number }) => number)).toEqual([1]);
  });

  it("leaves its place when it cannot be stored", async () => {
    const world = new JobWorld();
    const queue = await world.open();
    world.store.failNext("disk_full");
    const accepting = queue.accept(world.facts("a"), GIVEN, world.ready());
    accepting.catch(() => undefined);
    await world.clock.advance(100);
    await expect(accepting).rejects.toMatchObject({ code: "disk_full" });
    expect(queue.counts).toEqual({ queued: 0, running: 0 });
    expect(world.attempts).toEqual([]);
  });
});

describe("a job with waits of its own", () => {
  it("keeps to them whatever the failures are, and ends with the last", async () => {
    const world = new JobWorld();
    world.retries = { attemptsMax: 4, isRepeatable: true, delaysMs: [5_000, 60_000, 600_000] };
    const failures = ["not_sent", "ambiguous", "refused", "refused"] as const;
    world.run = () => failing(failures[world.attempts.length - 1] ?? "refused", "busy");
    const queue = await world.open();
    const facts = world.facts("a", {
      deadlineWallMs: undefined,
      destination: { name: "host", concurrency: 1 },
    });
    await world.clock.runUntilSettled(queue.accept(facts, GIVEN));
    await world.clock.advance(86_400_000);
    const waits = world.attempts.slice(1).map(({ atMs }, index) => atMs - (world.attempts[index]?.atMs ?? 0));
    expect(waits).toHaveLength(3);
    for (const [index, ms] of [5_000, 60_000, 600_000].entries()) {
      expect(waits[index]).toBeGreaterThanOrEqual(ms);
      expect(waits[index]).toBeLessThanOrEqual(ms * 1.1 + 100);
    }
    expect(world.ends).toMatchObject([{ status: "failed", attempts: 4, error: { code: "busy" } }]);
  });
});

describe("jobs whose intents are not stored", () => {
  it("make an attempt that a crash cut off again, under its number", async () => {
    const world = new JobWorld();
    world.run = () => new Promise(() => undefined);
    const queue = await world.open(false);
    await world.clock.runUntilSettled(queue.accept(world.facts("a"), GIVEN));
    await world.clock.advance(100);
    world.store.crash();
    world.run = () => DONE;
    await world.open(false);
    await world.clock.advance(100);
    expect(world.attempts.map(({ number }) => number)).toEqual([1, 1]);
    expect(world.ends).toMatchObject([{ attempts: 1 }]);
  });
});

describe("a job whose destination has changed", () => {
  it("waits for a slot of the new one", async () => {
    const world = new JobWorld();
    const queue = await world.open();
    const to = (name: string) => ({ name, concurrency: 1 });
    world.run = () => new Promise(() => undefined);
    await world.clock.runUntilSettled(queue.accept(world.facts("busy", { destination: to("new") }), GIVEN));
    await world.clock.advance(100);
    world.prepared = () => ({ ...world.ready(), destination: to("new") });
    await world.clock.runUntilSettled(queue.accept(world.facts("a", { destination: to("old") }), GIVEN));
    await world.clock.advance(1_000);
    expect(world.attempts).toHaveLength(1);
    expect(queue.find("a")?.phase).toBe("queued");
    await world.clock.runUntilSettled(queue.cancel("busy"));
    expect(queue.counts).toEqual({ queued: 0, running: 1 }); // the function of `busy` ignores its signal
  });
});

describe("jobs that are removed with what they belong to", () => {
  it("are attempted no more, and go on when that cannot be stored", async () => {
    const world = new JobWorld();
    world.run = () => failing("refused", "busy");
    const queue = await world.open();
    await world.clock.runUntilSettled(queue.accept(world.facts("a"), GIVEN));
    await world.clock.advance(10_000);
    const before = world.attempts.length;
    const refused = queue.remove(
      () => true,
      () => Promise.reject(new PerigeeError("disk_full", "no")),
    );
    await expect(refused).rejects.toMatchObject({ code: "disk_full" });
    await world.clock.advance(600_000);
    expect(world.attempts.length).toBeGreaterThan(before);
    await queue.remove(
      () => true,
      () => Promise.resolve(),
    );
    const after = world.attempts.length;
    await world.clock.advance(3_600_000);
    expect(world.attempts).toHaveLength(after);
    expect([world.ends, queue.find("a"), queue.counts.queued]).toEqual([[], undefined, 0]);
  });
});

describe("progress that an earlier version stored", () => {
  it("says why the last attempt did nothing", async () => {
    const world = new JobWorld();
    const facts = world.facts("a");
    const store = await world.store.open();
    const sinceWallMs = facts.createdWallMs;
    const held = { reason: "outage", code: "connection_failed", message: "refused", sinceWallMs };
    const counts = { attempts: 2, ambiguousAttempts: 0, isUnderWay: false, isRepeatable: true };
    const progress = { ...counts, updatedWallMs: sinceWallMs, nextWallMs: sinceWallMs + 60_000, held };
    const { id, project, createdWallMs, ...rest } = facts;
    const record = { collection: "job_open", id, project, parent: "", createdWallMs };
    const body = JSON.stringify({ ...rest, progress });
    await world.clock.runUntilSettled(store.change([{ kind: "put", record: { ...record, body } }]));
    world.store.crash();
    const queue = await world.open();
    const last = { failure: "not_sent", code: "connection_failed", message: "refused", sinceWallMs };
    expect(queue.find("a")?.progress).toMatchObject({ attempts: 2, last });
  });
});
