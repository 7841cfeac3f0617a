/** Jobs that ended long ago are removed, and no others, wherever the pages of the log divide them. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { removeEndedJobs } from "../../src/jobs/job_retention.ts";
import { WORK_KINDS } from "../../src/log/work_kinds.ts";
import { openWorkLog, type WorkLog } from "../../src/log/work_log.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { settled, work } from "../../src/testing/work_log_calls.ts";

const OLDEST_WALL_MS = 1_000;
const PAGE = 100;

interface Accepted {
  readonly createdWallMs: number;
  /** Undefined while it is pending. */
  readonly endedWallMs?: number | undefined;
  readonly kind?: number;
}

/** Accepts these, removes what ended long ago, and returns the places of those that are left. */
async function leftOf(jobs: readonly Accepted[]): Promise<number[]> {
  const log: WorkLog = await openWorkLog({ store: createMemoryStore(), clock: new FakeClock() });
  for (const [place, { createdWallMs, endedWallMs, kind = WORK_KINDS.execution }] of jobs.entries()) {
    const body = JSON.stringify(endedWallMs === undefined ? {} : { end: { wallMs: endedWallMs } });
    void log.accept(work(String(place), { kind, createdWallMs, body }));
  }
  await settled(log);
  await removeEndedJobs(log, [WORK_KINDS.execution], OLDEST_WALL_MS, async () => undefined);
  const left: number[] = [];
  for (let after = 0; ; after = left.at(-1) ?? 0) {
    const page = await log.rows.loggedTasks({ after, limit: PAGE });
    if (page.length === 0) break;
    left.push(...page.map(({ number }) => number));
  }
  await log.close();
  return left.map((number) => number - 1);
}

const OLD = { createdWallMs: 1, endedWallMs: OLDEST_WALL_MS };
const PENDING = { createdWallMs: 1 };
const ENDED_LATE = { createdWallMs: 1, endedWallMs: OLDEST_WALL_MS + 1 };
const DELIVERY = { ...OLD, kind: WORK_KINDS.delivery };
const YOUNG = { createdWallMs: OLDEST_WALL_MS + 1, endedWallMs: OLDEST_WALL_MS + 2 };

describe("the retention of jobs", () => {
  it("removes all that ended long ago, also between others that stay, and nothing else", async () => {
    const kind = fc.constantFrom<Accepted>(OLD, PENDING, ENDED_LATE, DELIVERY);
    const runs = fc.array(fc.tuple(kind, fc.constantFrom(1, PAGE - 1, PAGE, PAGE + 1)), { maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(runs, fc.nat({ max: 3 }), async (given, young) => {
        const jobs = given.flatMap(([job, count]) => Array<Accepted>(count).fill(job));
        jobs.push(...Array<Accepted>(young).fill(YOUNG));
        const stays = jobs.flatMap((job, place) => (job === OLD ? [] : [place]));
        expect(await leftOf(jobs)).toEqual(stays);
      }),
      { numRuns: 30 },
    );
  });

  it("removes those after jobs that were accepted while the clock was a year ahead", async () => {
    const ahead = Array<Accepted>(PAGE - 1).fill({ createdWallMs: 3e10, endedWallMs: 3e10 });
    expect(await leftOf([OLD, ...ahead, OLD, OLD])).toEqual(ahead.map((_, index) => index + 1));
  });
});
