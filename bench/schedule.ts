/**
 * The scheduler's hot paths: `npx tsx bench/schedule.ts`.
 *
 * Targets: take 0.2 us, reserve + observe + settle + release 1 us, push + pop 1 us at 40,000 tickets, a turn among 1,000
 * projects 1 us.
 */
import { systemClock } from "../src/clock.ts";
import { WindowBucket } from "../src/limits/bucket.ts";
import { LaneLimits, type RampOptions } from "../src/limits/limits.ts";
import { FairShare } from "../src/queue/fair_share.ts";
import { ShardQueue, type Ticket } from "../src/queue/queue.ts";

const ROUNDS = 5;

/** Best of some rounds, in microseconds per call. */
function measure(name: string, calls: number, round: () => void): void {
  let best = Number.POSITIVE_INFINITY;
  for (let each = 0; each < ROUNDS; each++) {
    const startMs = systemClock.nowMs();
    round();
    best = Math.min(best, ((systemClock.nowMs() - startMs) * 1_000) / calls);
  }
  const perSecond = Math.round(1e6 / best).toLocaleString("en");
  console.log(`${name.padEnd(56)} ${best.toFixed(3).padStart(8)} us ${perSecond.padStart(14)}/s`);
}

const CALLS = 1_000_000;
const LOAD = { inputTokens: 300, outputTokens: 200 };

measure("bucket: take, allowed (1,000,000 a minute)", CALLS, () => {
  const bucket = new WindowBucket({ limit: 1_000_000 });
  for (let each = 0; each < CALLS; each++) bucket.take(each * 0.0602, 1);
});

measure("bucket: take, refused by pacing", CALLS, () => {
  const bucket = new WindowBucket({ limit: 60 });
  for (let each = 0; each < CALLS; each++) bucket.take(each / CALLS, 1);
});

measure("bucket: take, refused by a full window", CALLS, () => {
  const bucket = new WindowBucket({ limit: 1_000, burst: 1_000 });
  for (let each = 0; each < 1_000; each++) bucket.add(each * 50, 1);
  for (let each = 0; each < CALLS; each++) bucket.take(59_000 + each / CALLS, 500);
});

function lane(
  settings: ConstructorParameters<typeof LaneLimits>[0]["settings"],
  shared?: LaneLimits,
  ramp?: RampOptions,
): LaneLimits {
  return new LaneLimits({ settings, inFlightMax: 2_048, nowMs: 0, random: () => 0.5, shared, ramp });
}

function cycle(limits: LaneLimits): void {
  for (let each = 0; each < CALLS; each++) {
    const nowMs = each * 0.05;
    const reservation = limits.reserve(nowMs, LOAD);
    if (!reservation.ok) throw new Error(`refused: ${reservation.reason}`);
    limits.observe(nowMs, { kind: "success" });
    limits.settle(nowMs, reservation.permit, { inputTokens: 290, outputTokens: 120 });
    limits.release(nowMs, reservation.permit);
  }
}

const RATES = {
  requestsPerMinute: 10_000_000,
  inputTokensPerMinute: 1e10,
  outputTokensPerMinute: 1e10,
};

const RAMP: RampOptions = { inputTokensPerMinute: 1e10, growth: 0.5, minutes: 15, isAsked: true };

measure("lane: reserve, observe, settle, release; no limits", CALLS, () => cycle(lane({})));
measure("lane: the same; a ramp, below its threshold", CALLS, () => cycle(lane({}, undefined, RAMP)));
measure("lane: the same; three quotas", CALLS, () => cycle(lane(RATES)));
measure("lane: the same; three quotas and shared ones", CALLS, () => cycle(lane(RATES, lane(RATES))));

const TICKETS = 40_000;

measure("queue: push and pop among 40,000 tickets", TICKETS * 2, () => {
  const queue = new ShardQueue<Ticket>();
  const push = (each: number): void =>
    queue.push({
      runId: "run",
      items: 256,
      inputTokens: 100_000,
      expectedOutputTokens: 50_000,
      deadlineMs: (each * 7_919) % 1_000_003,
      arrivedMs: each,
    });
  for (let each = 0; each < TICKETS; each++) push(each);
  for (let each = 0; each < TICKETS; each++) {
    queue.pop();
    push(each);
  }
});

for (const present of [2, 1_000]) {
  measure(`fair share: next and served among ${present}`, CALLS, () => {
    const share = new FairShare<number>({ weightOf: () => 1, nameOf: String });
    for (let who = 0; who < present; who++) share.join(who);
    for (let each = 0; each < CALLS; each++) share.served(share.next(() => true) as number, 1 + (each % 7));
  });
}
