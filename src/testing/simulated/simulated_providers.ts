/**
 * The providers of a simulation: what each request is answered with, when, and the book of what was billed.
 *
 *   request --a failure is due-----------------> it
 *           --flex, and there is no capacity---> 429
 *           --more than a minute's limit-------> 429 with retry-after
 *           --otherwise------------------------> an answer, after a drawn time
 */
import type { WireRequest } from "../../dispatch/transport.ts";
import { WindowBucket } from "../../limits/bucket.ts";
import type { ProviderSettings } from "../../providers/provider.ts";
import { FLEX_REFUSED_SHARE, type PriorSeconds } from "../../queue/lane_priors.ts";
import { curveOf, type LatencyCurve } from "../../queue/plan/latency_curve.ts";
import type { FakeClock } from "../fake_clock.ts";
import { jsonAnswer, openaiError, type Script } from "../scripted_transport.ts";
import { OpenaiBatchServer } from "./openai_batch_server.ts";
import { type AskedAnswer, answerBody, askedIn } from "./simulated_answers.ts";
import type {
  SimulatedFailure,
  SimulatedProvider,
  SimulatedRequest,
  SimulationEvent,
} from "./simulation_terms.ts";

const REALTIME: PriorSeconds = { p50: 0.8, p90: 2, p99: 6 };
const FLEX: PriorSeconds = { p50: 2.8, p90: 9.5, p99: 60 };
const OUTPUT_TOKENS = 64;
/** What a refusal takes, and a connection that fails. */
const REFUSED_MS = 100;
const HTTP_ERROR = 500;

interface Server {
  readonly settings: ProviderSettings;
  readonly behaviour: SimulatedProvider;
  readonly latency: Readonly<Record<"realtime" | "flex", LatencyCurve>>;
  readonly requests: WindowBucket;
  readonly tokens: WindowBucket;
  readonly batches: OpenaiBatchServer;
}

/** One for a simulation. */
export class SimulatedProviders {
  readonly requests: SimulatedRequest[] = [];
  readonly #servers: readonly Server[];
  readonly #random: () => number;
  readonly #tell: (event: SimulationEvent) => void;

  constructor(
    settings: readonly ProviderSettings[],
    behaviours: Readonly<Record<string, SimulatedProvider>>,
    clock: FakeClock,
    random: () => number,
    tell: (event: SimulationEvent) => void,
  ) {
    this.#random = random;
    this.#tell = tell;
    this.#servers = settings
      .filter(({ baseUrl }) => baseUrl !== "")
      .map((each) => this.#serverOf(each, behaviours[each.name] ?? {}, clock));
  }

  /** What becomes of a request. */
  script(request: WireRequest, nowMs: number): Script {
    const { method = "POST", path } = request;
    const server = this.#serverAt(request);
    if (server === undefined)
      return answerAfter(
        REFUSED_MS,
        openaiError(404, { message: `nothing is simulated at ${request.origin}` }),
      );
    const text = new TextDecoder().decode(request.body);
    const batch =
      server.settings.protocol === "openai" ? server.batches.script(method, path, text) : undefined;
    if (batch !== undefined) return answerAfter(REFUSED_MS, batch);
    if (method !== "POST" || /batch/i.test(path))
      return answerAfter(REFUSED_MS, openaiError(404, { message: "not simulated" }));
    return this.#realtime(server, askedIn(text, path), nowMs);
  }

  #serverOf(settings: ProviderSettings, behaviour: SimulatedProvider, clock: FakeClock): Server {
    const { name } = settings;
    const { latency = REALTIME, flexLatency = FLEX, requestsPerMinute, tokensPerMinute } = behaviour;
    const terms = {
      behaviour: behaviour.batch ?? {},
      answered: (asked: AskedAnswer) => this.#answer(behaviour, asked),
    };
    return {
      settings,
      behaviour,
      latency: { realtime: curveIn(latency), flex: curveIn(flexLatency) },
      requests: minuteOf(requestsPerMinute),
      tokens: minuteOf(tokensPerMinute),
      batches: new OpenaiBatchServer(terms, clock, this.#random, {
        request: (asked, given) =>
          this.#enter({
            ...bookOf(clock.nowMs(), name, asked),
            lane: "batch",
            outcome: "answered",
            ...given,
          }),
        batch: (event) => this.#tell({ type: "batch", atMs: clock.nowMs(), provider: name, ...event }),
      }),
    };
  }

  #realtime(server: Server, asked: AskedAnswer, nowMs: number): Script {
    const { behaviour, settings, latency } = server;
    const lane = asked.isFlex ? "flex" : "realtime";
    const given = this.#answer(behaviour, asked);
    const book = { ...bookOf(nowMs, settings.name, asked), lane } as const;
    const unbilled = { ...book, inputTokens: 0, outputTokens: 0 };
    const afterMs = latency[lane].quantileMs(this.#random());
    const failure = this.#failureAt(behaviour.failures ?? [], nowMs);
    if (failure !== undefined) {
      const isBilled = failure.kind === "lost";
      this.#enter({
        ...(isBilled ? book : unbilled),
        outcome: failure.kind,
        ...(isBilled ? tokensOf(given) : {}),
      });
      return failureScript(failure, afterMs);
    }
    if (asked.isFlex && this.#random() < (behaviour.flexShed ?? FLEX_REFUSED_SHARE)) {
      this.#enter({ ...unbilled, outcome: "shed" });
      return answerAfter(
        REFUSED_MS,
        openaiError(429, { message: "no capacity", code: "resource_unavailable" }),
      );
    }
    const waitMs = this.#limitedFor(server, asked.inputTokens + given.outputTokens, nowMs);
    if (waitMs > 0) {
      this.#enter({ ...unbilled, outcome: "limited" });
      const wait = { "retry-after": String(Math.ceil(waitMs / 1_000)) };
      const error = { message: "Rate limit reached", code: "rate_limit_exceeded" };
      return answerAfter(REFUSED_MS, openaiError(429, error, wait));
    }
    this.#enter({ ...book, outcome: "answered", ...tokensOf(given) });
    return answerAfter(afterMs, jsonAnswer(200, answerBody(settings.protocol, asked, given)));
  }

  /** Milliseconds until a request would be taken; counts it where that is 0. */
  #limitedFor({ requests, tokens }: Server, amount: number, nowMs: number): number {
    const waitMs = Math.max(requests.waitMs(nowMs, 1), tokens.waitMs(nowMs, amount));
    if (waitMs > 0) return waitMs;
    requests.add(nowMs, 1);
    tokens.add(nowMs, amount);
    return 0;
  }

  #answer(
    { answer, outputTokens = OUTPUT_TOKENS }: SimulatedProvider,
    { body, outputTokensMax }: AskedAnswer,
  ) {
    return { text: answer?.(body) ?? "ok", outputTokens: Math.min(outputTokens, outputTokensMax) };
  }

  #failureAt(failures: readonly SimulatedFailure[], nowMs: number): SimulatedFailure | undefined {
    return failures.find(({ share = 1, fromSeconds = 0, toSeconds = Number.POSITIVE_INFINITY }) => {
      const isNow = nowMs >= fromSeconds * 1_000 && nowMs < toSeconds * 1_000;
      return isNow && this.#random() < share;
    });
  }

  #serverAt({ origin, path }: WireRequest): Server | undefined {
    return this.#servers.find(({ settings }) => `${origin}${path}`.startsWith(settings.baseUrl));
  }

  #enter(request: SimulatedRequest): void {
    this.requests.push(request);
    this.#tell({ type: "request", ...request });
  }
}

function bookOf(atMs: number, provider: string, { model, inputTokens }: AskedAnswer) {
  return { atMs, provider, model, inputTokens, outputTokens: 0 };
}

function tokensOf({ outputTokens }: { readonly outputTokens: number }): { readonly outputTokens: number } {
  return { outputTokens };
}

function curveIn({ p50, p90, p99 }: PriorSeconds): LatencyCurve {
  return curveOf({ p50: p50 * 1_000, p90: p90 * 1_000, p99: p99 * 1_000 });
}

function minuteOf(limit: number = Number.POSITIVE_INFINITY): WindowBucket {
  return new WindowBucket({ limit, guardMs: 0, burst: limit });
}

function answerAfter(
  afterMs: number,
  result: Extract<Script, { readonly kind: "answer" }>["result"],
): Script {
  return { kind: "answer", afterMs, result };
}

function failureScript({ kind, status = HTTP_ERROR }: SimulatedFailure, afterMs: number): Script {
  switch (kind) {
    case "hang":
      return { kind: "hang" };
    case "lost":
      return answerAfter(afterMs, { ok: false, failure: "lost", message: "simulated: the connection ended" });
    case "not_sent":
      return answerAfter(REFUSED_MS, { ok: false, failure: "not_sent", message: "simulated: no connection" });
    case "error":
      return answerAfter(REFUSED_MS, openaiError(status, { message: "simulated" }));
  }
}
