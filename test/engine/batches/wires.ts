/**
 * The providers with batches whose faults are tried: what each is called, how it is configured, and its fake.
 */
import type { BatchOptions } from "../../../src/engine/config/batch_options.ts";
import type { ConfigOptions } from "../../../src/engine/config/config.ts";
import { FakeAnthropicBatches } from "../../batch_servers/anthropic.ts";
import type { FakeOptions } from "../../batch_servers/behaviour.ts";
import type { BatchFake } from "../../batch_servers/fake.ts";
import { FakeGeminiBatches } from "../../batch_servers/gemini.ts";
import { FakeMistralBatches } from "../../batch_servers/mistral.ts";
import { FakeOpenAiBatches } from "../../batch_servers/openai.ts";
import { FakeOpenRouterBatches } from "../../batch_servers/openrouter.ts";
import { FakeTogetherBatches } from "../../batch_servers/together.ts";
import { FakeXaiBatches } from "../../batch_servers/xai.ts";
import { BatchWorld } from "./batch_world.ts";

/** A provider with batches. */
export interface WireCase {
  readonly name: string;
  readonly model: string;
  readonly origin: string;
  readonly baseUrl: string;
  readonly config: ConfigOptions;
  make(options: FakeOptions): BatchFake;
  /** Puts so many items as input; absent: chats. */
  write?(world: BatchWorld, items: number): void;
}

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 4 };

function configOf(name: string, baseUrl: string, batches: BatchOptions = {}): ConfigOptions {
  return {
    providers: { [name]: { baseUrl, key: "sk-a", batches } },
    prices: { [`${name}:*`]: PRICE },
    lanes: { deny: ["flex"] },
  };
}

export const WIRES: readonly WireCase[] = [
  {
    name: "openai",
    model: "openai:gpt-5-mini",
    origin: "https://api.openai.test",
    baseUrl: "https://api.openai.test/v1",
    config: configOf("openai", "https://api.openai.test/v1"),
    make: (options) => new FakeOpenAiBatches(options),
  },
  {
    name: "anthropic",
    model: "anthropic:claude-haiku-4-5",
    origin: "https://api.anthropic.test",
    baseUrl: "https://api.anthropic.test",
    config: configOf("anthropic", "https://api.anthropic.test"),
    make: (options) => new FakeAnthropicBatches(options),
  },
  {
    name: "gemini",
    model: "gemini:gemini-2.5-flash",
    origin: "https://gemini.test",
    baseUrl: "https://gemini.test",
    config: configOf("gemini", "https://gemini.test"),
    make: (options) => new FakeGeminiBatches(options),
  },
  {
    name: "mistral",
    model: "mistral:mistral-small-2603",
    origin: "https://api.mistral.test",
    baseUrl: "https://api.mistral.test/v1",
    config: configOf("mistral", "https://api.mistral.test/v1"),
    make: (options) => new FakeMistralBatches(options),
  },
  {
    name: "openrouter",
    model: "openrouter:openai/gpt-5-mini",
    origin: "https://openrouter.test",
    baseUrl: "https://openrouter.test/api/v1",
    config: configOf("openrouter", "https://openrouter.test/api/v1"),
    make: (options) => new FakeOpenRouterBatches(options),
  },
];

/**
 * Those that nothing is sent to before the configuration says what their batches cost, because nobody knows it for sure
 * (price/lane_factors.ts).
 */
export const PRICED_WIRES: readonly WireCase[] = [
  {
    name: "together",
    model: "together:meta-llama/llama-4",
    origin: "https://api.together.test",
    baseUrl: "https://api.together.test/v1",
    config: configOf("together", "https://api.together.test/v1", { priceFactor: 0.5 }),
    make: (options) => new FakeTogetherBatches(options),
  },
  {
    name: "xai",
    model: "xai:grok-4",
    origin: "https://api.x.test",
    baseUrl: "https://api.x.test/v1",
    config: configOf("xai", "https://api.x.test/v1", { priceFactor: 0.5 }),
    make: (options) => new FakeXaiBatches(options),
  },
];

/** Embeddings of single texts, which share requests when they are sent at once. */
export const EMBEDDINGS: WireCase = {
  ...(WIRES[0] as WireCase),
  write: (world, items) =>
    world.requests(items, (line) => ({
      ...{ kind: "embedding", model: "openai:text-embedding-3-small" },
      input: `prompt ${line}`,
    })),
};

/** A world with one provider. */
export function worldOf(
  wire: WireCase,
  options: Partial<FakeOptions> = {},
  config: ConfigOptions = {},
): { readonly world: BatchWorld; readonly fake: BatchFake } {
  let fake: BatchFake | undefined;
  const world = new BatchWorld(
    (nowMs) => {
      fake = wire.make({ seed: 1, ...options, nowMs });
      return { [wire.origin]: fake };
    },
    { ...wire.config, ...config },
  );
  return { world, fake: fake as unknown as BatchFake };
}

export function wireCase(name: string): WireCase {
  return WIRES.find((wire) => wire.name === name) as WireCase;
}
