/**
 * Trials of kills: processes that die at any moment of a batch's life, beside answers that are lost, and one that ends the work.
 *
 * What must hold: each key has one line; each submission has one batch that is not cancelled; each item is billed once; what is
 * billed is what the provider's books say, to the nano-dollar. Used by tests and by the check of lanes.
 */
import { createRandom } from "../../../src/testing/random.ts";
import type { Call, CallFault, CallKind } from "../../batch_servers/behaviour.ts";
import type { BatchFake } from "../../batch_servers/fake.ts";
import type { BatchWorld } from "./batch_world.ts";
import { booksOf, paidTwice, wrongsOf } from "./books.ts";
import { type WireCase, worldOf } from "./wires.ts";

const KINDS: readonly CallKind[] = [
  "upload",
  "create",
  "add",
  "get",
  "cancel",
  "results",
  "list",
  "delete",
  "find_file",
];

/** Loses answers, each kind at most twice. */
export function losses(random: () => number, share: number): (call: Call) => CallFault | undefined {
  const plan = new Map<string, CallFault>();
  for (const kind of KINDS)
    for (let nth = 1; nth <= 2; nth += 1)
      if (random() < share)
        plan.set(
          `${kind} ${nth}`,
          random() < 0.5 ? "lost" : random() < 0.5 ? "lost_before" : { tornAfter: 0.5 },
        );
  return ({ kind, nth }) => plan.get(`${kind} ${nth}`);
}

const SCALES_MS = [50, 2_000, 60_000, 900_000];
const SLA_MINUTES = 1_440;

/** `raw`: lines with the provider's own body, which do not say what they cost. */
type TrialOptions = { readonly format?: "raw" };

/** What is wrong after a trial; nothing where all holds. `options`: of its runs. */
export async function killTrial(
  wire: WireCase,
  seed: number,
  items = 60,
  kills = 4,
  options: TrialOptions = {},
): Promise<readonly string[]> {
  const random = createRandom(seed);
  const { world, fake } = worldOf(wire, {
    seed: Math.floor(random() * 1e9),
    faults: losses(random, 0.3),
    listDelayMs: random() < 0.5 ? 0 : 30_000,
    times: { p50: 120_000, p90: 600_000, p99: 1_800_000 },
  });
  fill(world, wire, items);
  for (let kill = 0; kill < kills; kill += 1) {
    const scaleMs = SCALES_MS[Math.floor(random() * SCALES_MS.length)] as number;
    await world.killedAfter(random() * scaleMs, { ...options, sla: SLA_MINUTES }, random);
  }
  const wrong = await endedWrong(world, fake, items, options);
  return wrong.length === 0 ? [] : [`${wire.name}, seed ${seed}:`, ...wrong, ...world.notices];
}

/**
 * The same for a process that is killed exactly before or after its nth step with batches, from 1. Undefined if it came to its end
 * before that step.
 */
export async function stepTrial(
  wire: WireCase,
  nth: number,
  when: "before" | "after",
  items = 60,
): Promise<readonly string[] | undefined> {
  const random = createRandom(nth);
  const times = { p50: 20_000, p90: 60_000, p99: 90_000 };
  const { world, fake } = worldOf(wire, { seed: nth, listDelayMs: 30_000, times });
  fill(world, wire, items);
  if (!(await world.killedAt(nth, when, { sla: SLA_MINUTES }, random))) return undefined;
  const wrong = await endedWrong(world, fake, items);
  return wrong.length === 0 ? [] : [`${wire.name}, ${when} step ${nth}:`, ...wrong, ...world.notices];
}

function fill(world: BatchWorld, wire: WireCase, items: number): void {
  if (wire.write === undefined) world.input(items, wire.model);
  else wire.write(world, items);
}

/** Ends the work in one more process. Returns what is wrong then. */
async function endedWrong(
  world: BatchWorld,
  fake: BatchFake,
  items: number,
  options: TrialOptions = {},
): Promise<string[]> {
  const summary = await world.run({ ...options, sla: SLA_MINUTES });
  const wrong = options.format === undefined ? wrongsOf(world, fake, items) : bodiesWrong(world, items);
  const billedNanos = Math.round(summary.cost.billed_usd * 1e9);
  const { nanoUsd } = fake.ledger.sums();
  if (billedNanos !== nanoUsd) wrong.push(`billed ${billedNanos} nano-USD in all, books ${nanoUsd}`);
  if (summary.counts.completed !== items) wrong.push(`counts ${JSON.stringify(summary.counts)}`);
  const made = fake.ledger.keptBatches;
  if (made.length !== 1) wrong.push(`${made.length} batches`);
  const twice = paidTwice(fake);
  if (twice.length > 0) wrong.push(`${twice.length} items billed twice`);
  const ambiguousNanos =
    options.format === undefined
      ? booksOf(world, fake).ambiguousNanos
      : Math.round(summary.cost.ambiguous_usd * 1e9);
  if (ambiguousNanos !== 0) wrong.push(`${ambiguousNanos} nano-USD in doubt`);
  return wrong;
}

/** Each key has one line, with a body. */
function bodiesWrong(world: BatchWorld, items: number): string[] {
  const lines: readonly { readonly key: string; readonly body?: unknown }[] = world.lines();
  const answered = new Set(lines.flatMap(({ key, body }) => (body == null ? [] : [key])));
  if (lines.length === items && answered.size === items) return [];
  return [`${lines.length} lines, ${answered.size} keys with a body`];
}
