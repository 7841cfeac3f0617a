/**
 * One request of one output token, through an engine as a run has it: limits, retries, transport, codec and price are the same.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../clock.ts";
import type { ConfigOptions } from "../../engine/config/config.ts";
import { openEngine } from "../../engine/engine.ts";
import { loadBundledPrices } from "../../price/base.ts";
import { usdText } from "../../price/money.ts";
import type { PriceOverrides } from "../../price/overrides.ts";
import { PriceBook } from "../../price/price_book.ts";
import { ratesFor } from "../../price/rates.ts";
import { count } from "../numbers.ts";
import { type Check, limitsText } from "./provider_check.ts";

const TIMEOUT_MS = 60_000;
/** Of models that do not chat. */
const OTHER_KINDS =
  /embed|tts|whisper|moderation|image|audio|realtime|transcribe|speech|dall-e|sora|veo|imagen|rerank|guard|ocr|instruct|babbage|davinci|search|deep-research|computer/i;

/** The cheapest model of a provider's list, by the price of input and output; the first one where no price is known. */
export async function probedModel(
  provider: string,
  models: readonly string[],
  prices: PriceOverrides,
): Promise<string | undefined> {
  await loadBundledPrices();
  const book = new PriceBook(prices);
  const chatting = models.filter((name) => !OTHER_KINDS.test(name));
  const priced = chatting.flatMap((name) => {
    const price = book.price({ provider, name }, systemClock.wallMs());
    if (price === undefined) return [];
    const { inputUsdPerMillion, outputUsdPerMillion } = ratesFor(price, 1);
    return [{ name, usd: inputUsdPerMillion + outputUsdPerMillion }];
  });
  const [cheapest] = priced.sort((one, other) => one.usd - other.usd);
  const name = cheapest?.name ?? chatting[0];
  return name === undefined ? undefined : `${provider}:${name}`;
}

/** Never more than one item; what fails for a while is given up after a minute. */
export async function probe(
  provider: string,
  model: string | undefined,
  options: ConfigOptions,
): Promise<Check> {
  const name = `${provider} (sent)`;
  if (model === undefined)
    return {
      name,
      state: "note",
      text: "nothing was sent: it lists no model",
      todo: `name one: --model ${provider}:<name>`,
    };
  const dataDir = await mkdtemp(join(tmpdir(), "perigee-doctor-"));
  const { engine } = await openEngine({ ...options, dataDir, stateDir: false });
  const item = {
    key: "probe",
    request: { model, contents: [{ parts: [{ text: "Hi" }] }], generation_config: { max_output_tokens: 1 } },
  };
  const limit = new AbortController();
  const timer = systemClock.timer(TIMEOUT_MS, () => limit.abort());
  try {
    const work = engine.run([item], { waitMs: 0, finish: true, signal: limit.signal });
    for await (const line of work) {
      const limits = limitsText(statedLimits(engine.lanes().find((lane) => lane.provider === provider)));
      return outcomeOf(name, model, line, limits);
    }
    return {
      name,
      state: "fails",
      text: `${model} did not answer within ${TIMEOUT_MS / 1_000} s`,
      todo: "try again later",
    };
  } finally {
    timer.cancel();
    await engine.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** As much of a line as is shown. */
interface ProbedLine {
  readonly error?: { readonly code: string; readonly message: string };
  readonly latency_ms?: number;
  readonly cost?: { readonly billed_usd: number };
}

function outcomeOf(name: string, model: string, line: ProbedLine, limits: string): Check {
  const { error } = line;
  const facts = { model, code: error?.code ?? null, billed_usd: line.cost?.billed_usd ?? null };
  // One token is not enough for a model that thinks first: that it answered is what matters.
  if (error !== undefined && error.code !== "empty_output")
    return { name, state: "fails", text: `${model}: ${error.code}: ${error.message}`, facts };
  const took = line.latency_ms === undefined ? "" : ` after ${count(line.latency_ms)} ms`;
  const cost = line.cost === undefined ? "" : `, for ${usdText(line.cost.billed_usd)}`;
  const text = `${model} answered${took}${cost}`;
  return { name, state: "ok", text: limits === "" ? text : `${text}; ${limits}`, facts };
}

/** Of a lane, the limits that the provider's headers stated or the configuration sets. */
function statedLimits(
  lane:
    | Partial<Record<"requests" | "tokens" | "inputTokens" | "outputTokens", { readonly limit: number }>>
    | undefined,
): Parameters<typeof limitsText>[0] {
  const { requests, tokens, inputTokens, outputTokens } = lane ?? {};
  return {
    ...(requests === undefined ? {} : { requestsPerMinute: requests.limit }),
    ...(tokens === undefined ? {} : { tokensPerMinute: tokens.limit }),
    ...(inputTokens === undefined ? {} : { inputTokensPerMinute: inputTokens.limit }),
    ...(outputTokens === undefined ? {} : { outputTokensPerMinute: outputTokens.limit }),
  };
}
