/**
 * Mixes of projects with deadlines that can just be met, and what becomes of them in the engine's world.
 */
import type { ConfigOptions } from "../../src/engine/config/config.ts";
import { createRandom } from "../../src/testing/index.ts";
import { itemLine, ok, World } from "./world.ts";

const MINUTE_MS = 60_000;
/** Of what the limits allow, by the reckoning. */
const USED_SHARE = 0.95;
const SCALE_STEP = 1.05;

export interface Job {
  readonly project: string;
  readonly arriveMs: number;
  /** Minutes; undefined for none. */
  readonly sla: number | undefined;
  readonly items: number;
}

export interface Mix {
  readonly config: ConfigOptions;
  readonly models: number;
  readonly latencyMs: () => number;
  readonly jobs: readonly Job[];
}

/** What is drawn. */
export interface MixTerms {
  /** Minutes, the shortest and the longest. */
  readonly slas: readonly [number, number];
  /** Of the mixes, how many have a project with work without a deadline that never ends. */
  readonly endlessShare: number;
}

/** Whether earliest-deadline-first meets all deadlines at so many items a minute, each answered within `answerMs`. */
function canBeMet(jobs: readonly Job[], itemsPerMinute: number, answerMs: number): boolean {
  const left = jobs.map((job) => ({
    ...job,
    endMs: job.arriveMs + (job.sla ?? Number.POSITIVE_INFINITY) * MINUTE_MS,
  }));
  const shardFeed = [...new Set(left.map(({ arriveMs }) => arriveMs))].sort((a, b) => a - b);
  for (let index = 0, nowMs = 0; ; ) {
    const untilMs = shardFeed[index + 1] ?? Number.POSITIVE_INFINITY;
    nowMs = Math.max(nowMs, shardFeed[index] ?? 0);
    const open = left.filter((job) => job.items > 0 && job.arriveMs <= nowMs && job.sla !== undefined);
    const next = open.sort((a, b) => a.endMs - b.endMs)[0];
    if (next === undefined) {
      index += 1;
      if (index >= shardFeed.length) return true;
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

/**
 * Draws projects with as much work as can just be met, one with work for hours, and one without deadline. Throws when
 * earliest-deadline-first would miss a deadline of what it has drawn.
 */
export function drawMix(seed: number, { slas: [slaMin, slaMax], endlessShare }: MixTerms): Mix {
  const random = createRandom(seed);
  const whole = (from: number, to: number): number => from + Math.floor(random() * (to - from + 1));
  const isByPlaces = random() < 0.4;
  const places = whole(3, 6);
  const meanMs = isByPlaces ? whole(3_000, 8_000) : 800;
  const rate = isByPlaces ? (places / meanMs) * MINUTE_MS : whole(20, 60);
  const drawn: Job[] = Array.from({ length: whole(2, 5) }, (_, at) => ({
    project: `p${at}`,
    arriveMs: random() < 0.5 ? 0 : whole(1, 20 * slaMax) * 1_000,
    sla: whole(slaMin, slaMax),
    items: whole(1, 100),
  }));
  drawn.push({ project: "hours", arriveMs: 0, sla: 4 * slaMax, items: Math.ceil((rate * slaMax) / 3) });
  const ms = isByPlaces ? meanMs * 3 : 3_000;
  const jobsAt = (scale: number): Job[] =>
    drawn.map((job) =>
      job.project === "hours" ? job : { ...job, items: Math.max(1, Math.floor(job.items * scale)) },
    );
  const endless = { project: "endless", arriveMs: 0, sla: undefined, items: Math.ceil(rate * slaMax * 1.5) };
  const hasEndless = random() < endlessShare;
  const isMetAt = (scale: number): boolean => canBeMet(jobsAt(scale), rate * USED_SHARE, ms);
  let scale = 0.05;
  while (isMetAt(scale * SCALE_STEP)) scale *= SCALE_STEP;
  if (!isMetAt(scale)) throw new Error(`seed ${seed} draws deadlines that cannot be met`);
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
export async function missed(mix: Mix): Promise<readonly number[]> {
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
