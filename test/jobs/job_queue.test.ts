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
import { JobLog } from "../../src/jobs/job_log.ts";
import { moveRecordedJobs, type RecordedJobs } from "../../src/jobs/job_migration.ts";
import { JobQueue } from "../../src/jobs/job_queue.ts";
import { eachRecord, type RecordKind } from "../../src/log/records.ts";
import { WORK_KINDS } from "../../src/log/work_kinds.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import type { Store } from "../../src/store/store.ts";
import { createCrashableStore } from "../../src/testing/crashable_store.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { CountedDestinations } from "./counted_destinations.ts";

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
  /** What each commit says. */
  readonly commits: (readonly RecordKind[])[] = [];
  readonly attempts: { readonly number: number; readonly atMs: number }[] = [];
  readonly ends: JobEnd[] = [];
  readonly faults: unknown[] = [];
  retries: JobRetries = { attemptsMax: 8, isRepeatable: true };
  run: () => AttemptEnd | Promise<AttemptEnd> = () => DONE;
  prepared: (() => Prepared) | undefined;
  destinations = new CountedDestinations();

  async open(storesIntents = true): Promise<JobQueue<JobFacts>> {
    const store = await this.store.open();
    const commitLog = store.commitLog.bind(store);
    store.commitLog = async (commit) => {
      const records: RecordKind[] = [];
      eachRecord(commit.records, ({ is }) => records.push(is));
      this.commits.push(records);
      await commitLog(commit);
    };
    const limits = { placesMax: 4, groupPendingMax: 100, pendingMax: 100, closeMs: 1_000, storesIntents };
    const { clock, destinations } = this;
    const queue = new JobQueue({ clock, log: await this.jobs(store), sender: this, destinations, limits });
    await this.clock.runUntilSettled(queue.start());
    return queue;
  }

  async jobs(store: Store): Promise<JobLog<JobFacts>> {
    const log = await this.clock.runUntilSettled(openWorkLog({ store, clock: this.clock }));
    return new JobLog(log, WORK_KINDS.execution, () => "all");
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
    expect(world.commits).toEqual([["accepted", "intent"], ["outcome"]]);
    expect(world.ends).toMatchObject([{ status: "completed", attempts: 1 }]);
  });

  it("is accepted before its intent when repeating it does harm, so that its acceptance by itself puts nothing in doubt", async () => {
    const world = new JobWorld();
    world.retries = { attemptsMax: 8, isRepeatable: false };
    const queue = await world.open();
    await world.clock.runUntilSettled(queue.accept(world.facts("a"), GIVEN, world.ready()));
    expect(world.attempts).toEqual([]);
    await world.clock.advance(100);
    expect(world.commits).toEqual([["accepted"], ["intent"], ["outcome"]]);
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

  it("begins in the next process when the queue stops before; what is under way ends", async () => {
    const world = new JobWorld();
    let end: (end: AttemptEnd) => void = () => undefined;
    world.run = () =>
      new Promise((resolve) => {
        end = resolve;
      });
    const queue = await world.open();
    const under = queue.accept(world.facts("under way"), GIVEN, world.ready());
    await world.clock.advance(100);
    const before = queue.accept(world.facts("before"), GIVEN, world.ready());
    const waiting = queue.accept(world.facts("waiting"), GIVEN);
    queue.stop();
    const after = queue.accept(world.facts("after"), GIVEN, world.ready());
    await world.clock.advance(100);
    await Promise.all([under, before, waiting, after]);
    end(failing("refused", "busy"));
    await world.clock.advance(600_000);
    expect(world.attempts).toHaveLength(1);
    expect(["under way", "before", "waiting", "after"].map((id) => queue.find(id)?.phase)).toEqual([
      "retrying",
      "queued",
      "queued",
      "queued",
    ]);
    expect(queue.counts).toEqual({ queued: 4, running: 0 });
    await world.clock.runUntilSettled(queue.close());
    world.store.crash();
    world.run = () => DONE;
    await world.open();
    await world.clock.advance(100);
    expect(world.attempts.map(({ number }) => number).sort()).toEqual([1, 1, 1, 1, 2]);
    expect(world.ends).toHaveLength(4);
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
  it("keeps to them after any failures, and ends with the last", async () => {
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

describe("jobs that an earlier version stored as records", () => {
  const RECORDED: RecordedJobs<JobFacts> = {
    ...{ shown: "job", open: "job_open", notes: "job_notes" },
    endOf: ({ id, project, createdWallMs, payload }) => ({
      facts: { id, project, createdWallMs, deadlineWallMs: undefined, destination: undefined },
      end: {
        status: "completed",
        output: { bytes: payload?.byteLength ?? 0 },
        error: null,
        wallMs: 9,
        attempts: 3,
      },
    }),
  };

  async function recorded(world: JobWorld, id: string, progress?: object): Promise<void> {
    const store = await world.store.open();
    const { project, createdWallMs, ...rest } = world.facts(id);
    const record = { id, project, parent: "all", createdWallMs };
    const body = JSON.stringify({ ...rest, progress });
    const changes = [{ ...record, collection: "job", body: "{}", payload: GIVEN }];
    if (progress !== undefined) {
      changes.push({ ...record, collection: "job_open", body, payload: GIVEN });
      changes.push({ ...record, collection: "job_notes", body: "{}", payload: Uint8Array.of(7) });
    }
    const puts = changes.map((one) => ({ kind: "put" as const, record: one }));
    await world.clock.runUntilSettled(store.change(puts));
    world.store.crash();
  }

  /** Moves them, as often as a process is killed before their records are deleted. */
  async function move(world: JobWorld, times: number): Promise<JobLog<JobFacts>> {
    for (let time = 1; ; time += 1) {
      const store = await world.store.open();
      const jobs = await world.jobs(store);
      if (time < times) store.change = () => Promise.reject(new PerigeeError("interrupted", "killed"));
      const moving = world.clock.runUntilSettled(moveRecordedJobs(store, jobs, RECORDED));
      await (time < times ? expect(moving).rejects.toMatchObject({ code: "interrupted" }) : moving);
      for (const collection of ["job", "job_open", "job_notes"])
        if (time === times) expect(await store.records("one", { collection, limit: 9 })).toEqual([]);
      if (time === times) return jobs;
      world.store.crash();
    }
  }

  const counts = { ambiguousAttempts: 1, isRepeatable: true, updatedWallMs: 5 };
  const last = {
    failure: "not_sent",
    code: "connection_failed",
    message: "refused",
    sinceWallMs: 4,
  } as const;

  it.each([1, 2])("are each moved once, with all that is known of them, after %i tries", async (times) => {
    const world = new JobWorld();
    await recorded(world, "ended");
    await recorded(world, "waits", { ...counts, attempts: 2, isUnderWay: false, nextWallMs: 6, last });
    await recorded(world, "tried", { ...counts, attempts: 3, isUnderWay: true });
    await recorded(world, "fresh", { ...counts, attempts: 0, ambiguousAttempts: 0, isUnderWay: false });
    const jobs = await move(world, times);
    expect((await jobs.find("one", "ended"))?.end).toMatchObject({ output: { bytes: 1 }, attempts: 3 });
    const pending = await jobs.pending();
    const found = new Map(pending.map((job) => [job.facts.id, job]));
    expect(found.get("waits")?.progress).toEqual({
      ...{ ...counts, attempts: 2, isUnderWay: false, nextWallMs: 6, last },
    });
    expect(found.get("tried")?.progress).toMatchObject({ ...counts, attempts: 3, isUnderWay: true });
    expect(found.get("fresh")?.progress).toMatchObject({
      attempts: 0,
      ambiguousAttempts: 0,
      isUnderWay: false,
    });
    expect(found.size).toBe(3);
    for (const job of pending)
      expect([await jobs.given(job), await jobs.notes(job)]).toEqual([GIVEN, Uint8Array.of(7)]);
  });

  it("say why the last attempt did nothing, however they said it", async () => {
    const world = new JobWorld();
    const { failure: _failure, ...rest } = last;
    const held = { ...rest, reason: "outage" };
    await recorded(world, "held", { ...counts, attempts: 2, isUnderWay: false, nextWallMs: 6, held });
    const [job] = await (await move(world, 1)).pending();
    expect(job?.progress.last).toEqual(last);
  });
});

describe("a job after several crashes", () => {
  it("counts each attempt that was cut off as one that is ambiguous", async () => {
    const world = new JobWorld();
    world.run = () => new Promise(() => undefined);
    const queue = await world.open();
    await world.clock.runUntilSettled(queue.accept(world.facts("a"), GIVEN, world.ready()));
    for (let crash = 0; crash < 3; crash += 1) {
      await world.clock.advance(100);
      world.store.crash();
      await world.open();
    }
    world.run = () => failing("refused", "busy");
    await world.clock.advance(100);
    world.store.crash();
    const last = await world.open();
    const { attempts, ambiguousAttempts, isUnderWay } = last.find("a")?.progress ?? {};
    expect({ attempts, ambiguousAttempts, isUnderWay }).toEqual({
      ...{ attempts: 4, ambiguousAttempts: 3, isUnderWay: false },
    });
    world.run = () => DONE;
    await world.clock.advance(3_600_000);
    expect(world.ends).toMatchObject([{ status: "completed", attempts: 5 }]);
  });
});
