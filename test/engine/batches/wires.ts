/**
 * The providers with batches whose faults are tried: what each is called, how it is configured, and its fake.
 *
 * Together and xAI are not among them: nobody knows for sure what their batches cost, so nothing is sent to them before that is
 * configured (price/lane_factors.ts).
 */
import type { ConfigOptions } from "../../../src/engine/config/config.ts";
import { FakeAnthropicBatches } from "../../batch_servers/anthropic.ts";
import type { FakeOptions } from "../../batch_servers/behaviour.ts";
import type { BatchFake } from "../../batch_servers/fake.ts";
import { FakeGeminiBatches } from "../../batch_servers/gemini.ts";
import { FakeMistralBatches } from "../../batch_servers/mistral.ts";
import { FakeOpenAiBatches } from "../../batch_servers/openai.ts";
import { FakeOpenRouterBatches } from "../../batch_servers/openrouter.ts";
import { BatchWorld } from "./batch_world.ts";

/** A provider with batches. */
export interface WireCase {
  readonly name: string;
  readonly model: string;
  readonly origin: string;
  readonly baseUrl: string;
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
