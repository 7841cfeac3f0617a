import {
  type Attributes,
  type Meter,
  type MeterProvider,
  metrics,
  type Span,
  type SpanOptions,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import { fastify } from "fastify";
import { afterEach, describe, expect, it } from "vitest";
import type { AttemptReport } from "../../src/engine/journal/observer.ts";
import { Telemetry } from "../../src/service/operate/telemetry.ts";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";

const ATTEMPT: AttemptReport = {
  project: "red",
  lane: "openai:realtime:gpt-4o-mini",
  model: "openai:gpt-4o-mini",
  code: undefined,
  usage: {
    inputTokens: 100,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 20,
    reasoningTokens: 0,
    isEstimated: false,
  },
  latencyMs: 1_500,
};

interface Ended extends SpanOptions {
  readonly name: string;
  readonly set: Attributes;
  readonly endTime: unknown;
}

/** As little of an SDK as the API needs. */
function setUp() {
  const spans: Ended[] = [];
  const records: { name: string; value: number; attributes: Attributes }[] = [];
  const startSpan = (name: string, options: SpanOptions = {}): Span => {
    const set: Attributes = {};
    const span: Partial<Span> = {
      setAttribute: (key, value) => {
        set[key] = value;
        return span as Span;
      },
      setStatus: ({ code }) => {
        set["status"] = code;
        return span as Span;
      },
      end: (endTime) => void spans.push({ ...options, name, set, endTime }),
    };
    return span as Span;
  };
  const createHistogram = (name: string) => ({
    record: (value: number, attributes: Attributes = {}) => void records.push({ name, value, attributes }),
  });
  trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan }) } as unknown as TracerProvider);
  metrics.setGlobalMeterProvider({
    getMeter: () => ({ createHistogram }) as unknown as Meter,
  } as MeterProvider);
  return { spans, records };
}

afterEach(() => {
  trace.disable();
  metrics.disable();
});

describe("telemetry", () => {
  it("does nothing, and breaks nothing, without an SDK", async () => {
    const telemetry = new Telemetry();
    expect(telemetry.isTracing).toBe(false);
    telemetry.attempted(ATTEMPT);
    const app = fastify();
    telemetry.watch(app);
    app.get("/", async () => ({}));
    expect((await app.inject({ url: "/" })).statusCode).toBe(200);
  });

  it("has a span for each request, with its route and never its address", async () => {
    const { spans } = setUp();
    const app = fastify();
    new Telemetry().watch(app);
    app.get("/v0/infer/task/:id", async () => ({}));
    app.get("/broken", async () => {
      throw new Error("secret");
    });
    for (const url of ["/v0/infer/task/secret?secret=1", "/broken", "/secret"]) await app.inject({ url });
    expect(spans.map(({ name, attributes, set }) => [name, attributes, set])).toEqual([
      [
        "GET /v0/infer/task/:id",
        { "http.request.method": "GET", "http.route": "/v0/infer/task/:id" },
        { "http.response.status_code": 200 },
      ],
      [
        "GET /broken",
        { "http.request.method": "GET", "http.route": "/broken" },
        { "http.response.status_code": 500, "error.type": "500", status: 2 },
      ],
      ["GET", { "http.request.method": "GET" }, { "http.response.status_code": 404 }],
    ]);
    expect(JSON.stringify(spans)).not.toContain("secret");
  });

  it("has a span for each task, from its submission to its end", () => {
    const { spans } = setUp();
    const task: TaskView = {
      id: "t1",
      project: "red",
      status: "completed",
      isCancelled: false,
      retries: 0,
      totalItems: 3,
      models: [],
      fileIds: [],
      counts: { submitted: 0, completed: 2, failed: 1, expired: 0, cancelled: 0 },
      createdWallMs: 1_000,
      finishedWallMs: 9_000,
      held: [],
      hasOutputFile: false,
      usage: { inputTokens: 1, outputTokens: 1, listUsd: 0, usd: 0, billedUsd: 0, ambiguousUsd: 0 },
      note: "secret",
      version: "1",
    };
    const telemetry = new Telemetry();
    expect(telemetry.isTracing).toBe(true);
    telemetry.finished(task);
    expect(spans).toEqual([
      expect.objectContaining({
        name: "perigee.task",
        startTime: 1_000,
        endTime: 9_000,
        attributes: expect.objectContaining({ "perigee.task.id": "t1", "perigee.task.failed": 1 }),
      }),
    ]);
    expect(JSON.stringify(spans)).not.toContain("secret");
  });

  it("records duration and tokens of each request to a provider by the names of the conventions", () => {
    const { records } = setUp();
    const telemetry = new Telemetry();
    telemetry.attempted(ATTEMPT);
    telemetry.attempted({ ...ATTEMPT, model: "gemini:flash", code: "timeout", usage: undefined });
    const model = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "gpt-4o-mini",
    };
    expect(records).toEqual([
      { name: "gen_ai.client.operation.duration", value: 1.5, attributes: model },
      {
        name: "gen_ai.client.token.usage",
        value: 100,
        attributes: { ...model, "gen_ai.token.type": "input" },
      },
      {
        name: "gen_ai.client.token.usage",
        value: 20,
        attributes: { ...model, "gen_ai.token.type": "output" },
      },
      {
        name: "gen_ai.client.operation.duration",
        value: 1.5,
        attributes: {
          "gen_ai.operation.name": "chat",
          "gen_ai.provider.name": "gcp.gemini",
          "gen_ai.request.model": "flash",
          "error.type": "timeout",
        },
      },
    ]);
  });

  it("names 200 models, and all others alike", () => {
    const { records } = setUp();
    const telemetry = new Telemetry();
    for (let index = 0; index < 300; index += 1)
      telemetry.attempted({ ...ATTEMPT, model: `openai:m${index}`, usage: undefined });
    telemetry.attempted({ ...ATTEMPT, model: "openai:m5", usage: undefined });
    const names = records.map(({ attributes }) => attributes["gen_ai.request.model"]);
    expect(new Set(names).size).toBe(201);
    expect(names.slice(-2)).toEqual(["_OTHER", "m5"]);
  });
});
