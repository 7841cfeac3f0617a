/** What is read of each format, by examples of its documentation. */
import { describe, expect, it } from "vitest";
import { readLogLine } from "../../src/spend/log_line.ts";
import type { LoggedUsage, UsageSink } from "../../src/spend/logged_usage.ts";

interface Read {
  readonly usages: LoggedUsage[];
  readonly costs: [provider: string, usd: number][];
  readonly without: string[];
  readonly refusal: string | undefined;
}

function read(line: unknown): Read {
  const found = { usages: [] as LoggedUsage[], costs: [] as [string, number][], without: [] as string[] };
  const sink: UsageSink = {
    usage: (usage) => void found.usages.push(usage),
    cost: (provider, usd) => void found.costs.push([provider, usd]),
    without: (why) => void found.without.push(why),
  };
  const refusal = readLogLine(typeof line === "string" ? line : JSON.stringify(line), sink);
  return { ...found, refusal };
}

/** The only usage of a line, which must be understood. */
function usageOf(line: unknown): LoggedUsage {
  const { usages, refusal } = read(line);
  expect(refusal).toBeUndefined();
  expect(usages).toHaveLength(1);
  return usages[0]!;
}

const HOUR_MS = 3_600_000;

describe("OpenAI", () => {
  /** https://platform.openai.com/docs/api-reference/usage/completions */
  const RESULT = {
    object: "organization.usage.completions.result",
    input_tokens: 1000,
    output_tokens: 500,
    input_cached_tokens: 800,
    num_model_requests: 5,
    project_id: null,
    model: "gpt-5-mini",
    batch: true,
  };
  const BUCKET = { object: "bucket", start_time: 1730419200, end_time: 1730505600, results: [RESULT] };

  it("reads a page of usage, a bucket of it, and a result with the times of its bucket", () => {
    const expected = {
      provider: "openai",
      model: "gpt-5-mini",
      tier: "batch",
      requests: 5,
      isSum: true,
      fromMs: 1730419200_000,
      toMs: 1730505600_000,
      inputTokens: 1000,
      cachedTokens: 800,
      outputTokens: 500,
    };
    expect(usageOf({ object: "page", data: [BUCKET], has_more: true })).toMatchObject(expected);
    expect(usageOf(BUCKET)).toMatchObject(expected);
    expect(usageOf({ ...RESULT, start_time: 1730419200, end_time: 1730505600 })).toMatchObject(expected);
  });

  it("takes the tier of a result from service_tier when it is not a batch", () => {
    expect(usageOf({ ...RESULT, batch: false, service_tier: "flex" }).tier).toBe("flex");
    expect(usageOf({ ...RESULT, batch: null }).tier).toBeUndefined();
  });

  it("reads embeddings as input only, and refuses what has no text tokens", () => {
    const embeddings = {
      object: "organization.usage.embeddings.result",
      input_tokens: 16,
      num_model_requests: 2,
    };
    expect(usageOf(embeddings)).toMatchObject({ inputTokens: 16, outputTokens: 0, requests: 2, model: "" });
    const images = { object: "organization.usage.images.result", images: 2, num_model_requests: 2 };
    expect(read(images).refusal).toContain("organization.usage.images.result");
  });

  it("reads costs, and refuses those in another currency", () => {
    const costs = {
      object: "organization.costs.result",
      amount: { value: 0.06, currency: "usd" },
      line_item: null,
    };
    expect(read(costs)).toMatchObject({ costs: [["openai", 0.06]], refusal: undefined });
    expect(read({ ...costs, amount: { value: 1, currency: "eur" } }).refusal).toContain("usd");
  });

  it("reads an answer of chat completions and of the Responses API", () => {
    const usage = {
      prompt_tokens: 100,
      completion_tokens: 20,
      total_tokens: 120,
      prompt_tokens_details: { cached_tokens: 60 },
      completion_tokens_details: null,
    };
    const chat = {
      object: "chat.completion",
      created: 1730419200,
      model: "gpt-4o-mini",
      usage,
      service_tier: "flex",
    };
    const expected = { inputTokens: 100, cachedTokens: 60, outputTokens: 20, requests: 1, isSum: false };
    expect(usageOf(chat)).toMatchObject({
      ...expected,
      provider: "openai",
      tier: "flex",
      fromMs: 1730419200_000,
    });
    const response = {
      object: "response",
      created_at: 1730419200,
      model: "gpt-5",
      usage: { input_tokens: 100, input_tokens_details: { cached_tokens: 60 }, output_tokens: 20 },
    };
    expect(usageOf(response)).toMatchObject({ ...expected, model: "gpt-5" });
  });

  it("does not take an answer of an unknown model for one of OpenAI", () => {
    const usage = { prompt_tokens: 1, completion_tokens: 1 };
    expect(usageOf({ object: "chat.completion", model: "my-llama", usage }).provider).toBe("");
    expect(usageOf({ object: "chat.completion", model: "deepseek-chat", usage }).provider).toBe("deepseek");
    const openrouter = { object: "chat.completion", model: "openai/gpt-5", usage: { ...usage, cost: 0.5 } };
    expect(usageOf(openrouter)).toMatchObject({ provider: "openrouter", statedUsd: 0.5 });
  });

  it("reads a line of a batch's output as one in the tier batch, and a failed one as without usage", () => {
    const body = {
      object: "chat.completion",
      model: "gpt-5",
      usage: { prompt_tokens: 3, completion_tokens: 4 },
    };
    expect(usageOf({ custom_id: "a", response: { status_code: 200, body }, error: null }).tier).toBe("batch");
    expect(read({ custom_id: "a", response: null, error: { code: "batch_expired" } }).without).toEqual([
      "failed",
    ]);
  });
});

describe("Anthropic", () => {
  /** https://platform.claude.com/docs/en/api/admin-api/usage-cost/get-messages-usage-report */
  const RESULT = {
    api_key_id: "apikey_01Rj2N8SVvo6BePZj99NhmiT",
    cache_creation: { ephemeral_1h_input_tokens: 1000, ephemeral_5m_input_tokens: 500 },
    cache_read_input_tokens: 200,
    context_window: "0-200k",
    model: "claude-sonnet-4-20250514",
    output_tokens: 500,
    server_tool_use: { web_search_requests: 10 },
    service_tier: "standard",
    uncached_input_tokens: 1500,
    workspace_id: "wrkspc_01JwQvzr7rXLA5AGx3HKfFUJ",
  };
  const BUCKET = {
    starting_at: "2025-08-01T00:00:00Z",
    ending_at: "2025-08-02T00:00:00Z",
    results: [RESULT],
  };

  it("reads a page of usage, a bucket of it, and a result, whose counts are disjoint", () => {
    const expected = {
      provider: "anthropic",
      model: "claude-sonnet-4-20250514",
      tier: "standard",
      requests: 0,
      isSum: true,
      inputTokens: 3200,
      cachedTokens: 200,
      cacheWriteTokens: 1500,
      hourWriteTokens: 1000,
      outputTokens: 500,
    };
    const fromMs = Date.UTC(2025, 7, 1);
    expect(usageOf({ data: [BUCKET], has_more: true })).toMatchObject({ ...expected, fromMs });
    expect(usageOf(BUCKET)).toMatchObject({ ...expected, fromMs, toMs: fromMs + 24 * HOUR_MS });
    expect(usageOf(RESULT)).toMatchObject({ ...expected, fromMs: Number.NaN });
  });

  it("reads a cost report, whose amounts are cents", () => {
    const cost = { amount: "123.45", currency: "USD", cost_type: "tokens", model: "claude-opus-4" };
    const bucket = { ...BUCKET, results: [cost] };
    expect(read({ data: [bucket] })).toMatchObject({ costs: [["anthropic", 1.2345]], refusal: undefined });
    expect(read(cost).costs).toEqual([["anthropic", 1.2345]]);
  });

  it("reads a message, and one in the results of a batch", () => {
    const message = {
      id: "msg_013Zva2CMHLNnXjNJJKqJ2EF",
      type: "message",
      role: "assistant",
      model: "claude-sonnet-4-5",
      usage: {
        input_tokens: 100,
        output_tokens: 9,
        cache_read_input_tokens: 40,
        cache_creation_input_tokens: 30,
        cache_creation: { ephemeral_1h_input_tokens: 20, ephemeral_5m_input_tokens: 10 },
        service_tier: "standard",
      },
    };
    const tokens = { inputTokens: 170, cachedTokens: 40, cacheWriteTokens: 30, hourWriteTokens: 20 };
    expect(usageOf(message)).toMatchObject({ ...tokens, outputTokens: 9, tier: "standard", requests: 1 });
    const line = { custom_id: "a", result: { type: "succeeded", message } };
    expect(usageOf(line)).toMatchObject({ ...tokens, tier: "batch" });
    expect(read({ custom_id: "a", result: { type: "expired" } }).without).toEqual(["failed"]);
  });
});

describe("LiteLLM", () => {
  /** Columns of LiteLLM_SpendLogs: litellm/proxy/schema.prisma. */
  const ROW = {
    request_id: "chatcmpl-34df56d5",
    call_type: "acompletion",
    api_key: "88dc28d0f030c55ed4ab77ed8faf098196cb1c05df778539800c9f1243fe6b4b",
    spend: 0.00022500000000000002,
    total_tokens: 30,
    prompt_tokens: 10,
    completion_tokens: 20,
    startTime: "2025-03-24T22:02:42.975883+00:00",
    endTime: "2025-03-24 22:02:43.989",
    model: "openai/gpt-4o",
    custom_llm_provider: "openai",
    metadata: {
      usage_object: { prompt_tokens_details: { cached_tokens: 4 }, cache_creation_input_tokens: 3 },
    },
    cache_hit: "None",
    status: "success",
  };

  it("reads a row with its spend, its times and the cached tokens of its metadata", () => {
    const expected = {
      provider: "openai",
      model: "gpt-4o",
      tier: undefined,
      fromMs: Date.UTC(2025, 2, 24, 22, 2, 42, 975),
      toMs: Date.UTC(2025, 2, 24, 22, 2, 43, 989),
      inputTokens: 10,
      cachedTokens: 4,
      cacheWriteTokens: 3,
      outputTokens: 20,
      statedUsd: 0.00022500000000000002,
    };
    expect(usageOf(ROW)).toMatchObject(expected);
    expect(usageOf({ ...ROW, metadata: JSON.stringify(ROW.metadata) })).toMatchObject(expected);
  });

  it("reads a payload of its callbacks, whose times are Unix seconds", () => {
    const { spend, startTime, endTime, metadata, ...others } = ROW;
    const payload = {
      ...others,
      response_cost: spend,
      startTime: 1742853762.5,
      endTime: 1742853763.5,
      cache_hit: false,
    };
    expect(usageOf(payload)).toMatchObject({ fromMs: 1742853762_500, statedUsd: spend, cachedTokens: 0 });
    expect([startTime, endTime, metadata]).toHaveLength(3);
  });

  it("names providers as perigee does", () => {
    const provider = (name: string, model: string): string[] => {
      const usage = usageOf({ ...ROW, custom_llm_provider: name, model });
      return [usage.provider, usage.model];
    };
    expect(provider("together_ai", "together_ai/meta-llama/Llama-3")).toEqual([
      "together",
      "meta-llama/Llama-3",
    ]);
    expect(provider("vertex_ai", "gemini-2.5-pro")).toEqual(["vertex", "gemini-2.5-pro"]);
    expect(provider("", "claude-sonnet-4-5")).toEqual(["anthropic", "claude-sonnet-4-5"]);
  });

  it("counts rows of batches in the tier batch, and states no cost where it knew no price", () => {
    expect(usageOf({ ...ROW, call_type: "aretrieve_batch" }).tier).toBe("batch");
    expect(usageOf({ ...ROW, spend: 0 }).statedUsd).toBeNaN();
  });

  it("counts failures and answers of its own cache apart", () => {
    expect(read({ ...ROW, prompt_tokens: 0, completion_tokens: 0, spend: 0 }).without).toEqual(["failed"]);
    expect(read({ ...ROW, cache_hit: "True" }).without).toEqual(["gateway_cache"]);
    expect(read({ ...ROW, prompt_tokens: "10" }).refusal).toContain("prompt_tokens");
  });
});

describe("OpenTelemetry", () => {
  const ATTRIBUTES = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4.1",
    "gen_ai.usage.input_tokens": 811,
    "gen_ai.usage.output_tokens": 92,
    "gen_ai.usage.cache_read.input_tokens": 640,
    "openai.response.service_tier": "default",
  };
  const EXPECTED = {
    provider: "openai",
    model: "gpt-4.1",
    tier: "default",
    inputTokens: 811,
    cachedTokens: 640,
    outputTokens: 92,
  };

  /** https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding */
  function otlp(attributes: Readonly<Record<string, string | number>>): object {
    return {
      name: "chat",
      startTimeUnixNano: "1544712660300000000",
      endTimeUnixNano: "1544712661300000000",
      attributes: Object.entries(attributes).map(([key, value]) => ({
        key,
        value: typeof value === "number" ? { intValue: String(value) } : { stringValue: value },
      })),
    };
  }

  it("reads many spans of a line in OTLP, and counts those that are no requests apart", () => {
    const spans = [otlp(ATTRIBUTES), otlp({ "http.method": "GET" }), otlp(ATTRIBUTES)];
    const found = read({ resourceSpans: [{ resource: {}, scopeSpans: [{ scope: {}, spans }] }] });
    expect(found).toMatchObject({ refusal: undefined, without: ["other_spans"] });
    expect(found.usages).toMatchObject([
      EXPECTED,
      { ...EXPECTED, fromMs: 1544712660_300, toMs: 1544712661_300 },
    ]);
  });

  it("reads a span by itself, one with an object of attributes, and attributes by themselves", () => {
    expect(usageOf(otlp(ATTRIBUTES))).toMatchObject(EXPECTED);
    const flat = { start_time: "2026-10-01T10:00:00Z", attributes: ATTRIBUTES };
    expect(usageOf(flat)).toMatchObject({ ...EXPECTED, fromMs: Date.UTC(2026, 9, 1, 10) });
    expect(usageOf(ATTRIBUTES)).toMatchObject(EXPECTED);
  });

  it("reads the names of earlier conventions", () => {
    const earlier = {
      "gen_ai.system": "az.ai.openai",
      "gen_ai.request.model": "gpt-4o",
      "gen_ai.usage.prompt_tokens": 5,
      "gen_ai.usage.completion_tokens": 6,
    };
    expect(usageOf(otlp(earlier))).toMatchObject({ provider: "azure", inputTokens: 5, outputTokens: 6 });
  });

  it("does not count agents, whose requests are spans of their own", () => {
    expect(read(otlp({ ...ATTRIBUTES, "gen_ai.operation.name": "invoke_agent" })).without).toEqual([
      "summing_spans",
    ]);
  });

  it("takes an input that is less than its cached part as Anthropic's count without it", () => {
    const apart = {
      ...ATTRIBUTES,
      "gen_ai.usage.input_tokens": 10,
      "gen_ai.usage.cache_creation.input_tokens": 50,
    };
    expect(usageOf(otlp(apart))).toMatchObject({ inputTokens: 700, cachedTokens: 640, cacheWriteTokens: 50 });
  });
});

describe("a line of none of these", () => {
  it.each([
    ["{not json", "not valid JSON"],
    ["3", "not an object"],
    ['{"hello":1}', "not a line of"],
    ['{"data":[{"hello":1}]}', "entry 1: not a line of"],
    ['[{"hello":1}]', "entry 1: not a line of"],
  ])("%s is refused with what is wrong", (line, reason) => {
    expect(read(line)).toMatchObject({ usages: [], refusal: expect.stringContaining(reason) as unknown });
  });

  it("is read as far as it is understood, when it has several entries", () => {
    const good = {
      object: "chat.completion",
      model: "gpt-5",
      usage: { prompt_tokens: 3, completion_tokens: 4 },
    };
    const found = read([good, { hello: 1 }, good]);
    expect(found.refusal).toContain("entry 2");
    expect(found.usages).toHaveLength(2);
  });
});
