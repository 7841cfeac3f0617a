/**
 * The only import of @opentelemetry/api: traces and metrics if an SDK is set up in this process; else nothing happens.
 *
 *   span   `<method> <route>` for each HTTP request, below the caller's own where its headers name one
 *   span   `perigee.task` for each task, from its submission to its end
 *   metric gen_ai.client.operation.duration, gen_ai.client.token.usage for each request to a provider, by the names of
 *          https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/ (state 2026-11)
 *
 * Attributes are ids, names, codes and sizes; never a prompt, an answer, a header or an address. The first 200 models
 * are named, all further ones are `_OTHER`.
 *
 * To leave: nothing but `observation.ts` knows of it.
 */
import { createRequire } from "node:module";
import type { Attributes, Histogram, Span, Tracer } from "@opentelemetry/api";
import type { AttemptReport } from "../../engine/journal/observer.ts";
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import type { FastifyInstance, FastifyRequest } from "../http/fastify.ts";

/** Its CommonJS files, which prom-client loads in any case: those of ES modules are 51 more. All copies share what an SDK sets up. */
const {
  context,
  createNoopMeter,
  metrics,
  ProxyTracerProvider,
  propagation,
  SpanKind,
  SpanStatusCode,
  trace,
} = createRequire(import.meta.url)("@opentelemetry/api") as typeof import("@opentelemetry/api");

const SCOPE = "perigee";
const MODELS_MAX = 200;
const OTHER = "_OTHER";
/** Of the conventions. */
const SECONDS_BOUNDS = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
const TOKENS_BOUNDS = Array.from({ length: 14 }, (_, power) => 4 ** power);
/** Where the conventions name a provider otherwise than we do. */
const PROVIDER_NAMES: Readonly<Record<string, string>> = {
  gemini: "gcp.gemini",
  mistral: "mistral_ai",
};

/** Made after the SDK was set up: metrics of an earlier one go nowhere. */
export class Telemetry {
  readonly #tracer: Tracer;
  readonly #durations: Histogram;
  readonly #tokens: Histogram;
  /** Whether somebody takes metrics. */
  readonly #isMeasuring: boolean;
  readonly #models = new Set<string>();

  constructor() {
    this.#tracer = trace.getTracer(SCOPE);
    const meter = metrics.getMeter(SCOPE);
    this.#isMeasuring = meter !== createNoopMeter(); // which is always the same one
    this.#durations = meter.createHistogram("gen_ai.client.operation.duration", {
      description: "GenAI operation duration.",
      unit: "s",
      advice: { explicitBucketBoundaries: SECONDS_BOUNDS },
    });
    this.#tokens = meter.createHistogram("gen_ai.client.token.usage", {
      description: "Number of input and output tokens used.",
      unit: "{token}",
      advice: { explicitBucketBoundaries: TOKENS_BOUNDS },
    });
  }

  /** Whether somebody takes spans. */
  get isTracing(): boolean {
    const provider = trace.getTracerProvider();
    return !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer(SCOPE) !== undefined;
  }

  /** One request to a provider has ended. */
  attempted({ model, code, usage, latencyMs }: AttemptReport): void {
    if (!this.#isMeasuring) return;
    const attributes = this.#attributesOf(model);
    const failed = code === undefined ? attributes : { ...attributes, "error.type": code };
    this.#durations.record(latencyMs / 1_000, failed);
    if (usage === undefined) return;
    this.#tokens.record(usage.inputTokens, { ...attributes, "gen_ai.token.type": "input" });
    this.#tokens.record(usage.outputTokens, { ...attributes, "gen_ai.token.type": "output" });
  }

  /** A task is final. */
  finished({ id, project, status, totalItems, counts, createdWallMs, finishedWallMs }: TaskView): void {
    const span = this.#tracer.startSpan("perigee.task", {
      kind: SpanKind.INTERNAL,
      startTime: createdWallMs,
      root: true,
      attributes: {
        "perigee.task.id": id,
        "perigee.project": project,
        "perigee.task.items": totalItems,
        "perigee.task.completed": counts.completed,
        "perigee.task.failed": counts.failed,
        "perigee.task.expired": counts.expired,
        "perigee.task.cancelled": counts.cancelled,
      },
    });
    if (status === "failed") span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(finishedWallMs);
  }

  /** A span for each request to routes that are registered from now on, from the moment when somebody takes them. */
  watch(app: FastifyInstance): void {
    const spans = new WeakMap<FastifyRequest, Span>();
    app.addHook("onRequest", (request, _reply, done) => {
      if (!this.isTracing) {
        done();
        return;
      }
      const { method, headers } = request;
      const route = request.is404 ? undefined : request.routeOptions.url;
      const attributes: Attributes = { "http.request.method": method };
      if (route !== undefined) attributes["http.route"] = route;
      const parent = propagation.extract(context.active(), headers);
      const name = route === undefined ? method : `${method} ${route}`;
      spans.set(request, this.#tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent));
      done();
    });
    app.addHook("onResponse", (request, reply, done) => {
      const span = spans.get(request);
      const status = reply.statusCode;
      span?.setAttribute("http.response.status_code", status);
      if (status >= 500) fail(span, String(status));
      span?.end();
      done();
    });
    app.addHook("onRequestAbort", (request, done) => {
      fail(spans.get(request), "aborted");
      spans.get(request)?.end();
      done();
    });
  }

  #attributesOf(model: string): Attributes {
    const colon = model.indexOf(":");
    const provider = model.slice(0, colon);
    if (this.#models.size < MODELS_MAX) this.#models.add(model);
    return {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": PROVIDER_NAMES[provider] ?? provider,
      "gen_ai.request.model": this.#models.has(model) ? model.slice(colon + 1) : OTHER,
    };
  }
}

function fail(span: Span | undefined, type: string): void {
  span?.setAttribute("error.type", type);
  span?.setStatus({ code: SpanStatusCode.ERROR });
}
