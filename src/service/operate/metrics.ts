/**
 * The only import of prom-client: what a monitoring system asks of the process at `/metrics`.
 *
 *   HTTP, commits    counted as they happen
 *   all the rest     read from their owners when somebody asks
 *
 * Labels are only from closed sets: route patterns, methods, status, states, codes, configured providers, perigee's
 * satellites; families of models, of which the first 200 lanes are shown. Never an id, a key, a URL, a project or a text.
 *
 * To leave: the format is text; `render` and the hook are all that others see.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Hold } from "../../engine/items/holds.ts";
import type { LaneStatus } from "../../engine/lanes/lane_status.ts";
import type { CountedBatches } from "../../engine/shown/batch_status.ts";
import type { ExecutionView } from "../../satellites/sdk/execution.ts";
import { VENDOR_NAMESPACE } from "../../satellites/sdk/reference.ts";
import type { Activity } from "./activity.ts";

const LANES_MAX = 200;
const DURATION_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const COMMIT_BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const LANE_LABELS = ["provider", "tier", "family"] as const;
const LIMITS = [
  ["requests", "requests_per_minute"],
  ["tokens", "tokens_per_minute"],
  ["inputTokens", "input_tokens_per_minute"],
  ["outputTokens", "output_tokens_per_minute"],
] as const;
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** What is not final by now. */
export interface OpenObjectCounts {
  readonly tasks: number;
  readonly objects: number;
}

/** Executions that are not final by now. */
export interface PendingExecutions {
  readonly queued: number;
  readonly running: number;
}

export interface MetricsOptions {
  readonly activity: Pick<Activity, "total" | "attempts">;
  readonly lanes: () => readonly LaneStatus[];
  readonly open: () => OpenObjectCounts;
  readonly executions: () => PendingExecutions;
  readonly holds: () => readonly Hold[];
  /** Undefined until there is an engine. */
  readonly batches: () => Pick<CountedBatches, "list" | "tally"> | undefined;
}

/** One HTTP request that was answered, or given up by its caller. */
export interface AnsweredRequest {
  readonly method: string;
  /** Its pattern, such as `/v0/infer/task/:id`; undefined when no route was met. */
  readonly route: string | undefined;
  readonly status: number;
  /** Undefined when the attempt was given up. */
  readonly seconds: number | undefined;
}

type AnsweredLabels = Readonly<Record<"method" | "route" | "status", string>>;

/** Brings metrics whose figures others keep up to date. */
type Refresh = () => void;

/** Counts from when it is made. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #requests: Counter<"method" | "route" | "status">;
  readonly #durations: Histogram<"method" | "route">;
  readonly #commits: Histogram;
  readonly #tasks: Counter<"status">;
  readonly #executions: Counter<"satellite" | "status">;
  readonly #refreshes: readonly Refresh[];
  /** Requests since somebody asked last, by what they are counted by: adding labels up takes longer than all else here. */
  readonly #answered = new Map<string, { readonly labels: AnsweredLabels; count: number }>();

  constructor(options: MetricsOptions) {
    const registers = [this.#registry];
    this.#requests = new Counter({
      name: "perigee_http_requests_total",
      help: "HTTP requests answered.",
      labelNames: ["method", "route", "status"],
      registers,
    });
    this.#durations = new Histogram({
      name: "perigee_http_request_duration_seconds",
      help: "From a request's head to the end of its answer.",
      labelNames: ["method", "route"],
      buckets: DURATION_BOUNDS,
      registers,
    });
    this.#commits = new Histogram({
      name: "perigee_commit_duration_seconds",
      help: "What a group commit of the store took.",
      buckets: COMMIT_BOUNDS,
      registers,
    });
    this.#tasks = new Counter({
      name: "perigee_tasks_finished_total",
      help: "Tasks that became final, by their status.",
      labelNames: ["status"],
      registers,
    });
    this.#executions = new Counter({
      name: "perigee_executions_finished_total",
      help: "Executions that became final, by their status; satellites of projects are `other`.",
      labelNames: ["satellite", "status"],
      registers,
    });
    this.#refreshes = [
      sums(registers, options.activity),
      openWork(registers, options.open),
      pendingExecutions(registers, options.executions),
      lanes(registers, options.lanes),
      heldItems(registers, options.holds),
      openBatches(registers, options.batches),
      batchSums(registers, options.batches),
    ];
    collectDefaultMetrics({ register: this.#registry });
  }

  answered({ method, route, status, seconds }: AnsweredRequest): void {
    const labels = { method: METHODS.has(method) ? method : "other", route: route ?? "none" };
    this.#count(labels, status);
    if (seconds !== undefined) this.#durations.observe(labels, seconds);
  }

  #count(labels: Omit<AnsweredLabels, "status">, status: number): void {
    const key = `${labels.method} ${labels.route} ${status}`;
    const known = this.#answered.get(key);
    if (known === undefined)
      this.#answered.set(key, { labels: { ...labels, status: String(status) }, count: 1 });
    else known.count += 1;
  }

  #countAnswered(): void {
    for (const { labels, count } of this.#answered.values()) this.#requests.inc(labels, count);
    this.#answered.clear();
  }

  /** A commit of the store took so long. */
  committed(durationMs: number): void {
    this.#commits.observe(durationMs / 1_000);
  }

  /** A task became final. */
  finished(status: "completed" | "failed"): void {
    this.#tasks.inc({ status });
  }

  /** An execution became final. */
  executed({ satellite: { namespace, name }, status }: Pick<ExecutionView, "satellite" | "status">): void {
    this.#executions.inc({ satellite: namespace === VENDOR_NAMESPACE ? name : "other", status });
  }

  /** All of it as text, and what type of text. */
  async render(): Promise<{ readonly contentType: string; readonly text: string }> {
    this.#countAnswered();
    for (const refresh of this.#refreshes) refresh();
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() };
  }
}

/** The results of items and attempts, in this process. */
function sums(registers: Registry[], activity: MetricsOptions["activity"]): Refresh {
  const counter = (name: string, help: string, labelNames: string[]): Counter =>
    new Counter({ name, help, labelNames, registers });
  const items = counter("perigee_items_total", "Items by how they ended.", ["outcome"]);
  const cached = counter(
    "perigee_items_cached_total",
    "Completed items answered from the cache of answers.",
    [],
  );
  const tokens = counter("perigee_tokens_total", "Tokens of settled items.", ["direction"]);
  const cost = counter("perigee_cost_usd_total", "Cost of settled items.", ["price"]);
  const attempts = counter("perigee_attempts_total", "Attempts at items, sent or not.", [
    "provider",
    "outcome",
  ]);
  return () => {
    for (const one of [items, cached, tokens, cost, attempts]) one.reset();
    const { outcomes, inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd } = activity.total;
    cached.inc(activity.total.cached);
    for (const [outcome, count] of outcomes) items.inc({ outcome }, count);
    tokens.inc({ direction: "input" }, inputTokens);
    tokens.inc({ direction: "output" }, outputTokens);
    cost.inc({ price: "billed" }, billedUsd);
    cost.inc({ price: "ambiguous" }, ambiguousUsd);
    cost.inc({ price: "list" }, listUsd);
    cost.inc({ price: "factored" }, usd);
    for (const [key, count] of activity.attempts) {
      const [provider = "", outcome = ""] = key.split(" ");
      attempts.inc({ provider, outcome }, count);
    }
  };
}

function openWork(registers: Registry[], read: MetricsOptions["open"]): Refresh {
  const tasks = new Gauge({ name: "perigee_tasks_open", help: "Tasks that are not final.", registers });
  const objects = new Gauge({ name: "perigee_objects_open", help: "Objects that are not final.", registers });
  return () => {
    const open = read();
    tasks.set(open.tasks);
    objects.set(open.objects);
  };
}

function heldItems(registers: Registry[], read: MetricsOptions["holds"]): Refresh {
  const held = new Gauge({
    name: "perigee_held_items",
    help: "Items that wait for an outage, a limit, an account, a cap or a configuration to change.",
    labelNames: ["reason", "provider"],
    registers,
  });
  return () => {
    held.reset();
    for (const { reason, provider = "none", items } of read()) held.inc({ reason, provider }, items);
  };
}

function openBatches(registers: Registry[], read: MetricsOptions["batches"]): Refresh {
  const gauge = (name: string, help: string, ...more: string[]): Gauge =>
    new Gauge({ name, help, labelNames: ["provider", ...more], registers });
  const open = gauge(
    "perigee_batches_open",
    "Batches that have not been collected, by their state.",
    "state",
  );
  const items = gauge("perigee_batch_items", "Items in batches that have not ended.");
  const tokens = gauge("perigee_batch_enqueued_tokens", "Input tokens of batches in the provider's queue.");
  const oldest = gauge("perigee_batch_oldest_seconds", "Since the oldest open batch was created.");
  const each = [open, items, tokens, oldest];
  return () => {
    for (const one of each) one.reset();
    const ages = new Map<string, number>();
    for (const { provider, state, itemsOpen, enqueuedTokens, ageMs = 0 } of read()?.list() ?? []) {
      open.inc({ provider, state });
      items.inc({ provider }, itemsOpen);
      tokens.inc({ provider }, enqueuedTokens);
      ages.set(provider, Math.max(ages.get(provider) ?? 0, ageMs));
    }
    for (const [provider, ageMs] of ages) oldest.set({ provider }, ageMs / 1_000);
  };
}

/** What this process did with batches. */
function batchSums(registers: Registry[], read: MetricsOptions["batches"]): Refresh {
  const counter = (name: string, help: string, ...more: string[]): Counter =>
    new Counter({ name, help, labelNames: ["provider", ...more], registers });
  const polls = counter("perigee_batch_polls_total", "Polls of batches, by what they showed.", "outcome");
  const ends = counter("perigee_batch_submissions_total", "Submissions, by how they ended.", "outcome");
  const results = counter("perigee_batch_results_total", "Results that were collected.");
  return () => {
    for (const one of [polls, ends, results]) one.reset();
    const tally = read()?.tally;
    for (const [metric, sums] of [
      [polls, tally?.polls],
      [ends, tally?.ends],
      [results, tally?.results],
    ] as const)
      for (const [key, count] of sums ?? []) {
        const [provider = "", outcome] = key.split(" ");
        metric.inc({ provider, ...(outcome === undefined ? {} : { outcome }) }, count);
      }
  };
}

function pendingExecutions(registers: Registry[], read: MetricsOptions["executions"]): Refresh {
  const pending = new Gauge({
    name: "perigee_executions_pending",
    help: "Executions that are not final: queued ones wait for their turn or their next attempt.",
    labelNames: ["phase"],
    registers,
  });
  return () => {
    const { queued, running } = read();
    pending.set({ phase: "queued" }, queued);
    pending.set({ phase: "running" }, running);
  };
}

function lanes(registers: Registry[], read: MetricsOptions["lanes"]): Refresh {
  const gauge = (name: string, help: string, ...more: string[]): Gauge =>
    new Gauge({ name, help, labelNames: [...LANE_LABELS, ...more], registers });
  const known = new Gauge({ name: "perigee_lanes", help: "Lanes, those beyond 200 included.", registers });
  const limit = gauge("perigee_lane_limit", "What a limit allows.", "limit");
  const used = gauge("perigee_lane_used", "What of a limit is used.", "limit");
  const inFlight = gauge("perigee_lane_in_flight", "Requests in flight.");
  const waiting = gauge("perigee_lane_waiting", "Items that wait for a lane.");
  const cooldown = gauge("perigee_lane_cooldown_seconds", "Until a cool-down ends.");
  const isOpen = gauge(
    "perigee_lane_open",
    "1 where requests may be sent, 0 in a cool-down, outage or pause.",
  );
  const each = [limit, used, inFlight, waiting, cooldown, isOpen];
  return () => {
    const found = read();
    known.set(found.length);
    for (const one of each) one.reset();
    for (const lane of found.slice(0, LANES_MAX)) {
      const labels = { provider: lane.provider, tier: lane.tier, family: lane.family };
      for (const [name, label] of LIMITS) {
        const use = lane[name];
        if (use === undefined) continue;
        limit.set({ ...labels, limit: label }, use.limit);
        used.set({ ...labels, limit: label }, use.used);
      }
      limit.set({ ...labels, limit: "concurrency" }, lane.inFlightMax);
      used.set({ ...labels, limit: "concurrency" }, lane.inFlight);
      inFlight.set(labels, lane.inFlight);
      waiting.set(labels, lane.waiting);
      cooldown.set(labels, lane.cooldownMs / 1_000);
      isOpen.set(labels, lane.state === "open" ? 1 : 0);
    }
  };
}
