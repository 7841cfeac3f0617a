/**
 * The planner's tables: batches that stall at k %, random mixes of work, and a day of traffic, each against an oracle. Tests check
 * them, and a script may print them.
 */
import type { PlanGroup } from "../../../src/queue/plan/plan_input.ts";
import { createRandom } from "../../../src/testing/random.ts";
import {
  LOT_ITEMS,
  oracleUsd,
  runModel,
  WIRES,
  type Wire,
  type WorldModel,
  type WorldResult,
} from "./world.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const TOKENS = { inputTokens: 500, outputTokens: 200 };

/** A batch that stalls. */
export interface StallRow extends WorldResult {
  readonly wire: Wire["name"];
  readonly seed: number;
  readonly stallPercent: number;
  readonly items: number;
  /** What can be finished in the batch and fetched is paid there, the rest once in realtime. */
  readonly bestUsd: number;
}

const STALL_ITEMS = 10_000;
const STALL_DEADLINE_MS = 24 * HOUR_MS;

/**
 * 10,000 items in 24 h, whose batches stall at 0, 10, ... 100 %, on three wires. A cancel takes up to `cancelTimes` of what is
 * known to be its 99th percentile.
 */
export function runStallTable(seeds: readonly number[], cancelTimes: number = 1): readonly StallRow[] {
  return seeds.flatMap((seed) =>
    WIRES.flatMap((wire) =>
      Array.from({ length: 11 }, (_, tenth) => stallRow(wire, seed, tenth * 10, cancelTimes)),
    ),
  );
}

function stallRow(wire: Wire, seed: number, stallPercent: number, cancelTimes: number): StallRow {
  const random = createRandom(seed * 1_009 + stallPercent * 7 + wire.name.length);
  const takesMs = (0.5 + 4 * random()) * HOUR_MS;
  // Every lot draws whether it is before the stall, so that each batch stalls at about k %.
  const places = Array.from({ length: STALL_ITEMS / LOT_ITEMS }, () => random());
  const ranks = places.map((place) => places.filter((other) => other < place).length / places.length);
  const model: WorldModel = {
    wire,
    requestsPerMinute: 100 + Math.floor(random() * 400),
    lotMs: (_, lot) => {
      const rank = ranks[lot] ?? 0;
      return rank * 100 < stallPercent ? (rank + 0.01) * takesMs : Number.POSITIVE_INFINITY;
    },
    cancelMs: () => cancelTimes * wire.terms.cancelMs * random(),
    random,
  };
  const group = groupOf("all", STALL_ITEMS, STALL_DEADLINE_MS, "one");
  const result = runModel(model, [group]);
  const finished = (STALL_ITEMS * stallPercent) / 100;
  const canFetch = wire.terms.results !== "ended" || stallPercent === 100;
  const share = finished / STALL_ITEMS;
  const bestUsd = result.realtimeUsd * (canFetch ? 1 - share / 2 : 1);
  return { ...result, wire: wire.name, seed, stallPercent, items: STALL_ITEMS, bestUsd };
}

/** One random mix of work. */
export interface MixRow {
  readonly seed: number;
  readonly groups: number;
  readonly load: number;
  readonly items: number;
  readonly late: number;
  readonly paidUsd: number;
  /** Of the oracle that knows when each lot is finished. */
  readonly oracleUsd: number;
  readonly realtimeUsd: number;
  readonly twiceUsd: number;
  readonly bookedTwiceUsd: number;
}

const MODELS = 5;
/** So many lots share one draw of the latency: the first takes all of it, the others a part. */
const BATCH_LOTS = 10;
/** A lane has so much of each deadline for the last answers. */
const KEPT_MS = 45_000;

/**
 * Mixes of up to 40 groups: 5 models, 1 to 8 projects, deadlines of 2 min to 48 h (as many between 2 and 20 min as between 5 and
 * 48 h), loads of 0.5 to 0.98. Work is in proportion to its time, so that lanes are full at most deadlines and not only at one.
 */
export function runMixes(seeds: readonly number[]): readonly MixRow[] {
  return seeds.map((seed) => {
    const random = createRandom(seed);
    const projects = 1 + Math.floor(random() * 8);
    const load = 0.5 + 0.48 * random();
    const count = MODELS + Math.floor(random() * (41 - MODELS));
    const groups = Array.from({ length: count }, (_, index) => {
      const deadlineMs = 2 * MINUTE_MS * (48 * 30) ** random();
      const items = Math.ceil((deadlineMs / MINUTE_MS) * 40 ** random());
      const project = `project-${Math.floor(random() * projects)}`;
      return { ...groupOf(`group-${index}`, items, deadlineMs, `model-${index % MODELS}`), project };
    });
    return mixRow(seed, groups, load, random);
  });
}

/** A day of traffic: many deadlines of hours, some of minutes, and a little that is wanted at once. */
export function runDay(seed: number): MixRow {
  const random = createRandom(seed);
  const groups = Array.from({ length: 400 }, (_, index) => {
    const kind = random();
    const deadlineMs = kind < 0.1 ? (3 + 12 * random()) * MINUTE_MS : (2 + 22 * random()) * HOUR_MS;
    const items = Math.ceil((kind < 0.1 ? 5 : 50) * 20 ** random());
    return groupOf(`group-${index}`, items, deadlineMs, `model-${index % MODELS}`);
  });
  return mixRow(seed, groups, 0.7, random);
}

function mixRow(seed: number, groups: readonly PlanGroup[], load: number, random: () => number): MixRow {
  const sums = { late: 0, paidUsd: 0, oracleUsd: 0, realtimeUsd: 0, twiceUsd: 0, bookedTwiceUsd: 0 };
  for (const name of new Set(groups.map(({ model }) => model))) {
    const own = groups.filter(({ model }) => model === name);
    const model = modelOf(own, load, random);
    const result = runModel(model, own);
    sums.late += result.late + result.open;
    sums.paidUsd += result.paidUsd;
    sums.oracleUsd += oracleUsd(model, own);
    sums.realtimeUsd += result.realtimeUsd;
    sums.twiceUsd += result.twiceUsd;
    sums.bookedTwiceUsd += result.bookedTwiceUsd;
  }
  const items = groups.reduce((sum, group) => sum + group.items, 0);
  return { seed, groups: groups.length, load, items, ...sums };
}

/** A lane that earliest deadline first fills to `load` at its tightest deadline, and lots drawn from the wire's latency. */
function modelOf(groups: readonly PlanGroup[], load: number, random: () => number): WorldModel {
  let [items, requestsPerMinute] = [0, 0];
  for (const group of groups.toSorted((one, other) => one.deadlineMs - other.deadlineMs)) {
    items += group.items;
    requestsPerMinute = Math.max(
      requestsPerMinute,
      (items * MINUTE_MS) / ((group.deadlineMs - KEPT_MS) * load),
    );
  }
  const wire = WIRES[Math.floor(random() * WIRES.length)] as Wire;
  const drawn = new Map<string, number>();
  for (const group of groups) {
    let batchMs = 0;
    for (let lot = 0; lot * LOT_ITEMS < group.items; lot += 1) {
      if (lot % BATCH_LOTS === 0) batchMs = wire.latency.quantileMs(random());
      drawn.set(`${group.id}/${lot}`, lot % BATCH_LOTS === 0 ? batchMs : batchMs * random());
    }
  }
  return {
    wire,
    requestsPerMinute,
    lotMs: (groupId, lot) => drawn.get(`${groupId}/${lot}`) ?? Number.POSITIVE_INFINITY,
    cancelMs: () => wire.terms.cancelMs * random(),
    random,
  };
}

function groupOf(id: string, items: number, deadlineMs: number, model: string): PlanGroup {
  const { inputTokens, outputTokens } = TOKENS;
  return {
    id,
    model,
    project: "project",
    deadlineMs,
    items,
    inputTokens: items * inputTokens,
    outputTokens: items * outputTokens,
  };
}
