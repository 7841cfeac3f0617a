/**
 * Trials of kills: processes that die at any moment of a batch's life, beside answers that are lost, and one that ends the work.
 *
 * What must hold: each key has one line; each submission has one batch that is not cancelled; each item is billed once; what is
 * billed is what the provider's books say, to the nano-dollar. Used by tests and by the check of lanes.
 */
import type { ConfigOptions } from "../../../src/engine/config/config.ts";
import { createRandom } from "../../../src/testing/random.ts";
import { FakeAnthropicBatches } from "../../batch_servers/anthropic.ts";
import type { Call, CallFault, CallKind, FakeOptions } from "../../batch_servers/behaviour.ts";
import type { BatchFake } from "../../batch_servers/fake.ts";
import { FakeGeminiBatches } from "../../batch_servers/gemini.ts";
import { FakeOpenAiBatches } from "../../batch_servers/openai.ts";
import { BatchWorld } from "./batch_world.ts";

/** A provider with batches. */
export interface WireCase {
  readonly name: string;
  readonly model: string;
  readonly origin: string;
  readonly config: ConfigOptions;
  make(options: FakeOptions): BatchFake;
}

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 4 };

function configOf(name: string, baseUrl: string): ConfigOptions {
  return {
    providers: { [name]: { baseUrl, key: "sk-a" } },
    prices: { [`${name}:*`]: PRICE },
    lanes: { deny: ["flex"] },
  };
}

export const WIRES: readonly WireCase[] = [
  {
    name: "openai",
    model: "openai:gpt-5-mini",
    origin: "https://api.openai.test",
    config: configOf("openai", "https://api.openai.test/v1"),
    make: (options) => new FakeOpenAiBatches(options),
  },
  {
    name: "anthropic",
    model: "anthropic:claude-haiku-4-5",
    origin: "https://api.anthropic.test",
    config: configOf("anthropic", "https://api.anthropic.test"),
    make: (options) => new FakeAnthropicBatches(options),
  },
  {
    name: "gemini",
    model: "gemini:gemini-2.5-flash",
    origin: "https://gemini.test",
    config: configOf("gemini", "https://gemini.test"),
    make: (options) => new FakeGeminiBatches(options),
  },
];

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
function losses(random: () => number, share: number): (call: Call) => CallFault | undefined {
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

/** A world with one provider. */
function worldOf(wire: WireCase, options: Omit<FakeOptions, "nowMs">, config: ConfigOptions = {}) {
  let fake: BatchFake | undefined;
  const world = new BatchWorld(
    (nowMs) => {
      fake = wire.make({ ...options, nowMs });
      return { [wire.origin]: fake };
    },
    { ...wire.config, ...config },
  );
  return { world, fake: fake as unknown as BatchFake };
}

const SCALES_MS = [50, 2_000, 60_000, 900_000];
const SLA_MINUTES = 1_440;

/** What is wrong after a trial; nothing where all holds. */
export async function killTrial(
  wire: WireCase,
  seed: number,
  items = 60,
  kills = 4,
): Promise<readonly string[]> {
  const random = createRandom(seed);
  const { world, fake } = worldOf(wire, {
    seed: Math.floor(random() * 1e9),
    faults: losses(random, 0.3),
    listDelayMs: random() < 0.5 ? 0 : 30_000,
    times: { p50: 120_000, p90: 600_000, p99: 1_800_000 },
  });
  world.input(items, wire.model);
  for (let kill = 0; kill < kills; kill += 1) {
    const scaleMs = SCALES_MS[Math.floor(random() * SCALES_MS.length)] as number;
    await world.killedAfter(random() * scaleMs, { sla: SLA_MINUTES }, random);
  }
  const summary = await world.run({ sla: SLA_MINUTES });
  const wrong: string[] = [];
  const keys = new Set(world.lines().map(({ key }) => key));
  if (world.lines().length !== items || keys.size !== items)
    wrong.push(`${world.lines().length} lines for ${keys.size} keys`);
  if (summary.counts.completed !== items) wrong.push(`counts ${JSON.stringify(summary.counts)}`);
  const made = [...fake.ledger.batches.values()].filter(({ cancelledMs }) => cancelledMs === undefined);
  if (made.length !== 1) wrong.push(`${made.length} batches`);
  const billed = fake.ledger.charges.filter(({ nanoUsd }) => nanoUsd > 0);
  if (billed.length !== items) wrong.push(`${billed.length} answers billed`);
  const booksNanos = billed.reduce((sum, { nanoUsd }) => sum + nanoUsd, 0);
  const { billed_usd, ambiguous_usd } = summary.cost;
  if (Math.abs(billed_usd * 1e9 - booksNanos) > items / 2 + 1)
    wrong.push(`billed ${billed_usd}, books ${booksNanos / 1e9}`);
  if (ambiguous_usd !== 0) wrong.push(`${ambiguous_usd} in doubt`);
  return wrong.length === 0 ? [] : [`${wire.name}, seed ${seed}:`, ...wrong, ...world.notices];
}
