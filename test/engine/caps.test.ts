/**
 * A cost cap against a provider with its own book: for all requests, what it bills and what is in doubt stay under
 * the cap at every moment, through kills too, and the cap is used.
 */
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import type { Step } from "../../src/engine/journal/journal.ts";
import { createRandom, jsonAnswer } from "../../src/testing/index.ts";
import { countTokens } from "../../src/tokens/count.ts";
import { INPUT, mortal, OUTPUT, type Reply, World } from "./world.ts";

const RATES = { inputUsdPerMillion: 100, outputUsdPerMillion: 500 };
const LIMIT = 40;
const LOST: WireResult = { ok: false, failure: "lost", message: "reset" };

type Body = Record<string, unknown> & {
  readonly max_tokens?: number;
  readonly max_completion_tokens?: number;
};

/** One kind of request: its lines, and what the provider takes for it at most. */
interface Kind {
  readonly model: string;
  /** The body of a line in OpenAI's layout. */
  readonly body?: Record<string, unknown>;
  /** Text of the prompt, besides its number. */
  readonly text?: string;
  /** Without any output limit of its own. */
  readonly isUnlimited?: true;
  /** Input tokens that the provider counts besides those of the texts at one for each UTF-8 byte beyond ASCII. */
  readonly extraTokens?: number;
  /** Tokens of an ASCII text for each that o200k_base counts. */
  readonly asciiFactor?: number;
  readonly tier?: { readonly served: string; readonly factor: number };
  /** Names of the output limit that the provider looks at. */
  readonly limits?: readonly ("max_tokens" | "max_completion_tokens")[];
}

const ENGLISH = "Summarise the following note in one sentence, please.";
const tools = Array.from({ length: 6 }, (_, index) => ({
  type: "function",
  function: {
    name: `look_up_${index}`,
    description: ENGLISH,
    parameters: { type: "object", properties: { q: { type: "string" } } },
  },
}));
const schema = {
  type: "object",
  properties: { answer: { type: "string", description: ENGLISH } },
  required: ["answer"],
};
const image = (detail: string) => ({ type: "image_url", image_url: { url: "https://a.test/i.png", detail } });
/** Of so many bytes. */
const sound = (bytes: number) => ({
  type: "input_audio",
  input_audio: { data: "AAAA".repeat(bytes / 3), format: "mp3" },
});
const SOUND_BYTES = 6_000;
const content = (part: object) => [{ type: "text", text: "[[N]] what is this?" }, part];

const KINDS: Readonly<Record<string, Kind>> = {
  "plain text": { model: "openai:gpt-4o", text: ENGLISH },
  "text without a limit": { model: "openai:gpt-4o", text: ENGLISH, isUnlimited: true },
  "Chinese to Claude": { model: "anthropic:claude-opus-4-7", text: "請用一句話總結以下內容。".repeat(4) },
  "English to Claude": { model: "anthropic:claude-opus-4-7", text: ENGLISH.repeat(4), asciiFactor: 1.9 },
  "Thai and emoji to an unknown model": {
    model: "mine:m",
    text: "สรุปข้อความนี้ 🎉🎉🎉 ".repeat(4),
    asciiFactor: 1.5,
  },
  "a large image": {
    model: "openai:gpt-4o",
    body: { messages: [{ role: "user", content: content(image("high")) }], max_tokens: LIMIT },
    extraTokens: 85 + 8 * 170,
  },
  "a small image for a dear model": {
    model: "openai:gpt-4o-mini",
    body: { messages: [{ role: "user", content: content(image("low")) }], max_tokens: LIMIT },
    extraTokens: 2_833,
  },
  "a sound of 4 kbit/s, at 17 times the price of text": {
    model: "openai:gpt-4o-audio-preview",
    body: { messages: [{ role: "user", content: content(sound(SOUND_BYTES)) }], max_tokens: LIMIT },
    extraTokens: (SOUND_BYTES / 500) * 10 * 17,
  },
  tools: {
    model: "openai:gpt-4o",
    body: { messages: [{ role: "user", content: "[[N]] hi" }], tools, max_tokens: LIMIT },
    extraTokens: countTokens("o200k_base", JSON.stringify(tools)) + 12 * 6,
  },
  "a schema": {
    model: "openai:gpt-4o",
    body: {
      messages: [{ role: "user", content: "[[N]] hi" }],
      response_format: { type: "json_schema", json_schema: { name: "a", schema } },
      max_completion_tokens: LIMIT,
    },
    extraTokens: countTokens("o200k_base", JSON.stringify(schema)) + 20,
  },
  "the priority tier": {
    model: "openai:gpt-4o",
    body: { messages: [{ role: "user", content: "[[N]] hi" }], service_tier: "priority", max_tokens: LIMIT },
    tier: { served: "priority", factor: 2 },
  },
  "a tier that nobody knows": {
    model: "openai:gpt-4o",
    body: { messages: [{ role: "user", content: "[[N]] hi" }], service_tier: "turbo", max_tokens: LIMIT },
    tier: { served: "turbo", factor: 2 },
  },
  "the priority tier at a server that perigee does not know": {
    model: "mine:m",
    body: { messages: [{ role: "user", content: "[[N]] hi" }], service_tier: "priority", max_tokens: LIMIT },
    tier: { served: "priority", factor: 2 },
  },
  "a tier that nobody knows, at a server that perigee does not know": {
    model: "mine:m",
    body: { messages: [{ role: "user", content: "[[N]] hi" }], service_tier: "turbo", max_tokens: LIMIT },
    tier: { served: "turbo", factor: 2 },
  },
  "the priority tier at a provider that lists none": {
    model: "groq:m",
    body: { messages: [{ role: "user", content: "[[N]] hi" }], service_tier: "priority", max_tokens: LIMIT },
    tier: { served: "priority", factor: 2 },
  },
  "the old name of the limit": {
    model: "openai:gpt-4o",
    body: { messages: [{ role: "user", content: "[[N]] hi" }], max_tokens: LIMIT },
    limits: ["max_completion_tokens"],
  },
  "the new name of the limit, at an unknown server": {
    model: "mine:m",
    body: { messages: [{ role: "user", content: "[[N]] hi" }], max_completion_tokens: LIMIT },
    limits: ["max_tokens"],
  },
  "a prediction": {
    model: "openai:gpt-4o",
    body: {
      messages: [{ role: "user", content: "[[N]] hi" }],
      prediction: { type: "content", content: ENGLISH },
      max_completion_tokens: LIMIT,
    },
  },
};

function lineOf(kind: Kind, line: number): string {
  const numbered = (value: unknown): string => JSON.stringify(value).replaceAll("[[N]]", `[[${line}]]`);
  if (kind.body !== undefined)
    return `{"custom_id":"k${line}","body":${numbered({ model: kind.model, ...kind.body })}}\n`;
  const request = {
    model: kind.model,
    contents: [{ parts: [{ text: `[[N]] ${kind.text}` }] }],
    ...(kind.isUnlimited === true ? {} : { generation_config: { max_output_tokens: LIMIT } }),
  };
  return `{"key":"k${line}","request":${numbered(request)}}\n`;
}

/** Texts of a body, whichever its protocol. */
function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (typeof value !== "object" || value === null) return [];
  const { content, text, messages } = value as Record<string, unknown>;
  return [content, text, messages].flatMap(textsOf);
}

interface Book {
  billedUsd: number;
  /** The most of one request. */
  dearestUsd: number;
  requests: number;
}

/** The provider: bills what comes in when it comes in, whether anybody hears its answer or not. */
function providerOf(kind: Kind, book: Book, random: () => number): (body: Body) => WireResult {
  const { extraTokens = 0, asciiFactor = 1, tier, limits = ["max_completion_tokens", "max_tokens"] } = kind;
  return (body) => {
    let input = extraTokens + 7;
    for (const text of textsOf(body)) {
      const ascii = [...text].filter((char) => char < "\u0080").join("");
      const beyond = Buffer.byteLength(text) - ascii.length;
      input += beyond + Math.floor(countTokens("o200k_base", ascii) * asciiFactor);
    }
    const limit = limits.map((name) => body[name]).find((one) => one !== undefined) ?? 100_000;
    const predicted = body["prediction"] === undefined ? 0 : countTokens("o200k_base", ENGLISH);
    const output = Math.ceil(limit * (random() < 0.3 ? 1 : random())) + predicted;
    const factor = tier?.factor ?? 1;
    const usd = ((input * RATES.inputUsdPerMillion + output * RATES.outputUsdPerMillion) / 1e6) * factor;
    book.billedUsd += usd;
    book.requests += 1;
    book.dearestUsd = Math.max(book.dearestUsd, usd);
    if (kind.model.startsWith("anthropic:"))
      return jsonAnswer(200, {
        content: [{ type: "text", text: "answer" }],
        stop_reason: "end_turn",
        usage: { input_tokens: input, output_tokens: output },
      });
    return jsonAnswer(200, {
      choices: [{ message: { content: "answer" }, finish_reason: "stop" }],
      usage: { prompt_tokens: input, completion_tokens: output },
      ...(tier === undefined ? {} : { service_tier: tier.served }),
    });
  };
}

const CONFIG = {
  providers: {
    openai: { baseUrl: "http://openai.test/v1", key: "k" },
    anthropic: { baseUrl: "http://anthropic.test", key: "k" },
    groq: { baseUrl: "http://groq.test/v1", key: "k" },
    mine: { baseUrl: "http://mine.test/v1", needsKey: false }, // else it would be tried with two requests first
  },
  prices: { "openai:*": RATES, "anthropic:*": RATES, "groq:*": RATES, "mine:*": RATES },
};

/** What one request of a kind is billed at most, as the provider's own formula says. */
function dearestOf(kind: Kind): number {
  const book = { billedUsd: 0, dearestUsd: 0, requests: 0 };
  const limits = kind.isUnlimited === true ? 4_096 : LIMIT;
  const body = kind.body ?? { messages: [{ content: `[[1]] ${kind.text}` }] };
  providerOf(kind, book, () => 0)({ ...body, max_tokens: limits, max_completion_tokens: limits });
  return book.dearestUsd;
}

interface Played {
  readonly book: Book;
  readonly progress: { readonly billedUsd: number; readonly ambiguousUsd: number };
}

/** Runs more lines of a kind than the cap has money for, with resets, and kills at some moments. */
async function play(
  kind: Kind,
  capUsd: number,
  options: { readonly kills: number; readonly seed: number },
): Promise<Played> {
  const random = createRandom(options.seed);
  const book: Book = { billedUsd: 0, dearestUsd: 0, requests: 0 };
  const provider = providerOf(kind, book, random);
  const mostUsd = new Map<number, number>(); // by line, of the request that is recorded last
  const onStep = (_: number, { intents }: Step): void => {
    for (const intent of intents) mostUsd.set(intent.line, intent.mostUsd);
  };
  const answer = (line: number, attempt: number, _model: string, body: unknown): Reply => {
    const beforeUsd = book.billedUsd;
    const result = provider(body as Body);
    expect(book.billedUsd - beforeUsd).toBeLessThanOrEqual((mostUsd.get(line) ?? 0) * (1 + 1e-9));
    expect(book.billedUsd).toBeLessThanOrEqual(capUsd * (1 + 1e-9)); // at every moment
    const afterMs = 5 + Math.floor(random() * 60);
    return { afterMs, result: attempt === 1 && random() < 0.05 ? LOST : result };
  };
  const world = new World({ config: { ...CONFIG, maxInFlight: 16 }, answer });
  world.disk.put(INPUT, Array.from({ length: 400 }, (_, index) => lineOf(kind, index + 1)).join(""));
  const run = { out: OUTPUT, maxCostUsd: capUsd, onStep };
  for (let kill = 0; kill < options.kills; kill += 1) {
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, run).finished;
    await world.clock.advance(60 + Math.floor(random() * 150));
    process.kill();
    world.kill({ powerCut: kill % 2 === 1, random });
  }
  const last = (await world.engine()).run(INPUT, run);
  await world.clock.advance(900_000);
  const progress = last.progress();
  last.stop();
  return { book, progress };
}

describe("a cost cap", () => {
  it.each(Object.entries(KINDS))("holds for %s, through kills, and is used", async (_, kind) => {
    const capUsd = dearestOf(kind) * 120;
    for (const kills of [0, 3]) {
      const { book, progress } = await play(kind, capUsd, { kills, seed: 7 + kills });
      const { billedUsd, ambiguousUsd } = progress;
      expect(billedUsd + ambiguousUsd).toBeLessThanOrEqual(capUsd * (1 + 1e-9));
      expect(book.billedUsd).toBeLessThanOrEqual(billedUsd + ambiguousUsd + 1e-9);
      expect(book.billedUsd).toBeGreaterThanOrEqual(billedUsd - 1e-9);
      expect((billedUsd + ambiguousUsd) / capUsd).toBeGreaterThanOrEqual(0.97);
    }
  });

  it("is overshot by a provider that ignores output limits by no more than 4 requests' excess", async () => {
    const kind: Kind = { model: "mine:m", text: ENGLISH, limits: [] };
    const book: Book = { billedUsd: 0, dearestUsd: 0, requests: 0 };
    const provider = providerOf(kind, book, () => 0); // 100,000 tokens each
    const world = new World({
      config: CONFIG,
      answer: (_line, _attempt, _model, body) => provider(body as Body),
    });
    world.disk.put(INPUT, Array.from({ length: 100 }, (_, index) => lineOf(kind, index + 1)).join(""));
    (await world.engine()).run(INPUT, { out: OUTPUT, maxCostUsd: 20 });
    await world.clock.advance(600_000);
    expect(book.requests).toBe(4); // 50 USD each: nothing new before the bound is raised, and no money after it
  });

  it.each([
    ["audio", "mine:m", sound(3)],
    ["a file", "openai:gpt-4o", { type: "file", file: { file_id: "file-1" } }],
  ])(
    "refuses %s to %s before anything is sent, unless what nothing bounds is allowed",
    async (what, model, part) => {
      const kind: Kind = {
        model,
        body: { messages: [{ role: "user", content: content(part) }], max_tokens: 9 },
      };
      const book: Book = { billedUsd: 0, dearestUsd: 0, requests: 0 };
      const provider = providerOf(kind, book, () => 0);
      const world = new World({
        config: CONFIG,
        answer: (_line, _attempt, _model, body) => provider(body as Body),
      });
      world.disk.put(INPUT, lineOf(kind, 1));
      const engine = await world.engine();
      const refused = await world.settle(engine.run(INPUT, { out: OUTPUT, maxCostUsd: 5 }).finished);
      expect(refused).toMatchObject({ errors: { cost_unbounded: 1 }, requests_sent: 0 });
      expect(world.disk.text(OUTPUT)).toContain(`a cost cap cannot bound ${what}`);
      const allowed = engine.run(INPUT, { out: "/other", maxCostUsd: 5, maxCostUnbounded: true });
      expect(await world.settle(allowed.finished)).toMatchObject({ counts: { completed: 1 } });
    },
  );

  it("holds a model without a known price, and says how to add it", async () => {
    const world = new World({ config: { providers: CONFIG.providers } });
    world.input(1, "mine:m");
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, maxCostUsd: 5 });
    expect(await world.settle(run.finished)).toMatchObject({
      status: "paused",
      reason: "price_unknown",
      held: [
        {
          model: "mine:m",
          message:
            'no price is known for mine:m, so a cost cap cannot bound it: add "mine:m": {"input_mtok": ..., "output_mtok": ...} (USD per million tokens) to "models" of the price sheet',
        },
      ],
    });
    const allowed = engine.run(INPUT, { out: "/other", maxCostUsd: 5, maxCostUnbounded: true });
    expect(await world.settle(allowed.finished)).toMatchObject({ counts: { completed: 1 } });
  });
});

const CHAT = (text: string) => ({
  contents: [{ parts: [{ text }] }],
  generation_config: { max_output_tokens: 10 },
});

it.each([
  ["chats", CHAT, 0.05, "; a smaller max_output_tokens puts less in doubt"],
  [
    "completions",
    (prompt: string) => ({ kind: "completion", prompt, max_tokens: 10 }),
    0.05,
    "; a smaller max_tokens puts less in doubt",
  ],
  ["embeddings, which have no output", (input: string) => ({ kind: "embedding", input }), 0.005, ""],
] as const)(
  "a cap that is used up by what is in doubt says so, and what puts less in doubt, for %s",
  async (_kind, request, maxCostUsd, advice) => {
    const prices = { "mine:*": RATES };
    const world = new World({
      config: {
        providers: { mine: { baseUrl: "http://mine.test/v1", embeddingInputsMax: 1 } },
        prices,
        maxInFlight: 4,
      },
      answer: () => LOST,
    });
    const lines = Array.from({ length: 20 }, (_, index) => {
      const item = { model: "mine:m", ...request(`[[${100 + index}]] hi`) };
      return `${JSON.stringify({ key: `k${index}`, request: item })}\n`;
    });
    world.disk.put(INPUT, lines.join(""));
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, maxCostUsd });
    const { held, cost } = await world.settle(run.finished);
    expect(cost.billed_usd).toBe(0);
    expect(cost.ambiguous_usd).toBeGreaterThan(maxCostUsd / 2);
    expect(held?.map(({ message }) => message.replaceAll(/\$[\d.]+/g, "$"))).toContain(
      `the cost cap of $ has $ left ($ of what is spent is in doubt), and the next request may cost $${advice}`,
    );
  },
);
