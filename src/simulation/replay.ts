/**
 * One simulation of a file: all its lanes in one virtual time, with chance from one seed.
 *
 * Not modelled are failures of providers, their refusals for a rate that perigee does not know, other work on the same key, and the
 * speed of this machine and its disk.
 */
import { LaneLimits } from "../limits/limits.ts";
import { createRandom } from "../testing/random.ts";
import type { LimitSettings } from "../work/limits.ts";
import type { FileShape } from "./file_shape.ts";
import type { SimulatedLanePlan } from "./lane_plan.ts";
import { Schedule } from "./schedule.ts";
import { SimulatedBatches } from "./simulated_batches.ts";
import { type RunTerms, SimulatedLane } from "./simulated_lane.ts";
import { SimulationTally } from "./tally.ts";

/** What is simulated, for any seed. */
export interface SimulatedWork {
  readonly shape: FileShape;
  readonly lanes: readonly SimulatedLanePlan[];
  /** Of whole providers, by name. */
  readonly shared: Readonly<Record<string, LimitSettings>>;
  readonly terms: RunTerms;
  /** A cap on what is billed; Infinity without one. */
  readonly maxUsd: number;
}

/** Runs to the end. */
export function replay(
  { shape, lanes: plans, shared, terms, maxUsd }: SimulatedWork,
  seed: number,
): SimulationTally {
  const random = createRandom(seed);
  const schedule = new Schedule(random);
  const tally = new SimulationTally(shape, maxUsd);
  const run = { shape, schedule, tally, terms };
  const byProvider = new Map<string, { readonly limits: LaneLimits; readonly lanes: SimulatedLane[] }>();
  for (const plan of plans) {
    const { provider } = plan;
    const beside = byProvider.get(provider) ?? {
      limits: sharedLimits(shared[provider] ?? {}, terms, random),
      lanes: [],
    };
    byProvider.set(provider, beside);
    beside.lanes.push(new SimulatedLane(plan, run, beside.limits, (lane) => pumpAfter(lane, beside.lanes)));
  }
  const all = [...byProvider.values()].flatMap(({ lanes }) => lanes);
  for (const lane of all) {
    if (lane.plan.batch !== undefined) new SimulatedBatches(lane, lane.plan.batch, run).start();
    lane.pump();
  }
  schedule.run();
  for (const { queue } of all) for (let row = queue.shift(); row >= 0; row = queue.shift()) tally.left(row);
  return tally;
}

function sharedLimits(settings: LimitSettings, terms: RunTerms, random: () => number): LaneLimits {
  const places = { inFlightMax: terms.maxInFlight, inFlightStart: terms.maxInFlight };
  return new LaneLimits({ settings, ...places, nowMs: 0, random });
}

/** A place is free in a lane: those after it are first, so that all have their turn. */
function pumpAfter(lane: SimulatedLane, lanes: readonly SimulatedLane[]): void {
  if (lanes.length > 1) {
    const place = lanes.indexOf(lane);
    for (let step = 1; step < lanes.length; step += 1) {
      const other = lanes[(place + step) % lanes.length] as SimulatedLane;
      if (other.queue.first >= 0) other.pump();
    }
  }
  lane.pump();
}
