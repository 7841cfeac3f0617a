/**
 * Deadlines of several projects in one lane: none is missed that earliest-deadline-first would meet, whoever else has work with
 * hours to spare, or more work than can be done.
 */
import { describe, expect, it } from "vitest";
import type { ConfigOptions } from "../../src/engine/config.ts";
import { createRandom } from "../../src/testing/index.ts";
import { itemLine, ok, World } from "./world.ts";

const MINUTE_MS = 60_000;
/** Of what the limits allow, by the reckoning. */
const USED_SHARE = 0.95;

interface Job {
  readonly project: string;
  readonly arriveMs: number;
  /** Minutes; undefined for none. */
  readonly sla: number | undefined;
  readonly items: number;
}

interface Mix {
  readonly config: ConfigOptions;
  readonly models: number;
  readonly latencyMs: () => number;
  readonly jobs: readonly Job[];
}

/** Whether earliest-deadline-first meets all deadlines at so many items a minute, each answered within `answerMs`. */
function canBeMet(jobs: readonly Job[], itemsPerMinute: number, answerMs: number): boolean {
  const left = jobs.map((job) => ({
    ...job,
    endMs: job.arriveMs + (job.sla ?? Number.POSITIVE_INFINITY) * MINUTE_MS,
  }));
  const arrivals = [...new Set(left.map(({ arriveMs }) => arriveMs))].sort((a, b) => a - b);
  for (let index = 0, nowMs = 0; ; ) {
    const untilMs = arrivals[index + 1] ?? Number.POSITIVE_INFINITY;
    nowMs = Math.max(nowMs, arrivals[index] ?? 0);
    const open = left.filter((job) => job.items > 0 && job.arriveMs <= nowMs && job.sla !== undefined);
    const next = open.sort((a, b) => a.endMs - b.endMs)[0];
    if (next === undefined) {
      index += 1;
      if (index >= arrivals.length) return true;
      continue;
    }
    const doneMs = nowMs + (next.items / itemsPerMinute) * MINUTE_MS;
    if (doneMs <= untilMs) {
      if (doneMs + answerMs > next.endMs) return false;
      next.items = 0;
      nowMs = doneMs;
    } else {
      next.items -= ((untilMs - nowMs) * itemsPerMinute) / MINUTE_MS;
      index += 1;
    }
  }
}

/** Draws projects with as much work as can just be met, one with work for hours, and one without deadline. */
function drawMix(seed: number): Mix {
  const random = createRandom(seed);
  const whole = (from: number, to: number): number => from + Math.floor(random() * (to - from + 1));
  const isByPlaces = random() < 0.4;
  const places = whole(3, 6);
  const meanMs = isByPlaces ? whole(3_000, 8_000) : 800;
  const rate = isByPlaces ? (places / meanMs) * MINUTE_MS : whole(20, 60);
  const drawn: Job[] = Array.from({ length: whole(2, 5) }, (_, at) => ({
    project: `p${at}`,
    arriveMs: random() < 0.5 ? 0 : whole(1, 300) * 1_000,
    sla: whole(2, 15),
    items: whole(1, 100),
  }));
  drawn.push({ project: "hours", arriveMs: 0, sla: 60, items: Math.ceil(rate * 5) });
  const ms = isByPlaces ? meanMs * 3 : 3_000;
  const jobsAt = (scale: number): Job[] =>
    drawn.map((job) =>
      job.project === "hours" ? job : { ...job, items: Math.max(1, Math.floor(job.items * scale)) },
    );
  const endless = { project: "endless", arriveMs: 0, sla: undefined, items: Math.ceil(rate * 10) };
  const hasEndless = random() < 0.4;
  let scale = 0.05;
  while (canBeMet(jobsAt(scale * 1.05), rate * USED_SHARE, ms)) scale *= 1.05;
  return {
    config: isByPlaces
      ? { limits: { alpha: { concurrency: places } } }
      : { limits: { alpha: { requestsPerMinute: rate } } },
    models: random() < 0.3 ? 3 : 1,
    latencyMs: () => meanMs * (0.7 + 0.6 * random()),
    jobs: [...jobsAt(scale), ...(hasEndless ? [endless] : [])],
  };
}

/** Items of each job that were late. */
async function missed(mix: Mix): Promise<readonly number[]> {
  const world = new World({
    config: mix.config,
    answer: (line) => ({ afterMs: mix.latencyMs(), result: ok(line) }),
  });
  const engine = await world.engine();
  const runs: { readonly job: Job; readonly run: ReturnType<typeof engine.run> }[] = [];
  for (const [at, job] of [...mix.jobs].sort((a, b) => a.arriveMs - b.arriveMs).entries()) {
    const lines = Array.from({ length: job.items }, (_, line) =>
      itemLine(1 + at * 100_000 + line, `alpha:m${line % mix.models}`),
    );
    world.disk.put(`/in${at}`, lines.join(""));
    await world.clock.advance(Math.max(0, job.arriveMs - world.clock.nowMs()));
    const sla = job.sla === undefined ? {} : { sla: job.sla };
    runs.push({ job, run: engine.run(`/in${at}`, { out: `/out${at}`, project: job.project, ...sla }) });
  }
  const late: number[] = [];
  for (const { job, run } of runs)
    if (job.sla !== undefined) late.push((await world.settle(run.finished)).counts.expired);
  for (const { run } of runs) run.stop();
  await world.settle(Promise.all(runs.map(({ run }) => run.finished)));
  await engine.close();
  return late;
}

describe("deadlines that earliest-deadline-first can meet", () => {
  for (let seed = 1; seed <= 24; seed += 1)
    it(`are all met, whoever shares the lane: seed ${seed}`, { timeout: 120_000 }, async () => {
      const late = await missed(drawMix(seed));
      expect(late.reduce((sum, items) => sum + items, 0)).toBe(0);
    });
});

describe("a project with deadlines", () => {
  const config = { limits: { alpha: { requestsPerMinute: 60 } } };
  const latencyMs = (): number => 500;

  it("borrows the turns of one with hours to spare when its share is too little", async () => {
    const jobs = [
      { project: "patient", arriveMs: 0, sla: 240, items: 600 },
      { project: "urgent", arriveMs: 0, sla: 10, items: 540 },
    ];
    expect(await missed({ config, models: 1, latencyMs, jobs })).toEqual([0, 0]);
  });

  it("leaves a turn now and then to a single request without deadline", async () => {
    const world = new World({ config, latencyMs: 500 });
    world.disk.put("/due", Array.from({ length: 360 }, (_, at) => itemLine(1 + at)).join(""));
    world.disk.put("/single", itemLine(10_000));
    const engine = await world.engine();
    const due = engine.run("/due", { out: "/due.out", project: "due", sla: 10 });
    await world.clock.advance(40_000);
    const startMs = world.clock.nowMs();
    await world.settle(engine.run("/single", { out: "/single.out", project: "single" }).finished);
    expect(world.clock.nowMs() - startMs).toBeLessThan(35_000);
    expect(await world.settle(due.finished)).toMatchObject({ counts: { completed: 360 } });
  });

  it("gets no more than its share when it wants more than can be done", async () => {
    const jobs = [
      { project: "greedy", arriveMs: 0, sla: 10, items: 6_000 },
      { project: "modest", arriveMs: 0, sla: 10, items: 270 },
    ];
    const [greedy = 0, modest] = await missed({ config, models: 1, latencyMs, jobs });
    expect(modest).toBe(0);
    expect(greedy).toBeGreaterThan(5_600);
  });

  it("shares with another whose deadline is the same, in turns", async () => {
    const world = new World({ config, latencyMs: 500 });
    world.disk.put("/large", Array.from({ length: 500 }, (_, at) => itemLine(1 + at)).join(""));
    world.disk.put("/small", Array.from({ length: 10 }, (_, at) => itemLine(10_000 + at)).join(""));
    const engine = await world.engine();
    const large = engine.run("/large", { out: "/large.out", project: "large", sla: 10 });
    await world.clock.advance(30_000);
    const small = engine.run("/small", { out: "/small.out", project: "small", sla: 10 });
    const startMs = world.clock.nowMs();
    await world.settle(small.finished);
    expect(world.clock.nowMs() - startMs).toBeLessThan(23_000);
    expect(await world.settle(large.finished)).toMatchObject({ counts: { completed: 500 } });
  });
});
