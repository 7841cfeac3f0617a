/**
 * What one simulated run is asked to do, all drawn from its seed: the lines of the input and what each must come to,
 * the terms of the run, and the troubles of the world around it.
 *
 * A prompt carries its line's number in `[[n]]`, so that the provider knows what it is asked. Faults of an item are
 * bounded so that the retry policy must get past them; windows in which a whole provider fails end after some minutes.
 */
import type { ConfigOptions } from "../../src/engine/config.ts";

/** What the provider does with one request. Grouped by the classes of the fault model. */
export type Fault =
  // refused before work
  | "rate_limited"
  | "unavailable"
  | "overloaded"
  // no byte left
  | "not_sent"
  // may have been processed
  | "server_error"
  | "gateway_timeout"
  | "reset_before"
  | "reset_after"
  | "half_body"
  | "html"
  | "error_inside"
  | "no_choices"
  | "empty"
  | "hang"
  | "too_late"
  | "too_large";

const FREE_FAULTS: readonly Fault[] = [
  "rate_limited",
  "rate_limited",
  "rate_limited",
  "unavailable",
  "overloaded",
  "not_sent",
];
const AMBIGUOUS_FAULTS: readonly Fault[] = [
  "server_error",
  "gateway_timeout",
  "reset_before",
  "reset_after",
  "half_body",
  "html",
  "error_inside",
  "no_choices",
  "empty",
  "hang",
  "too_late",
  "too_large",
];

/** How an item ends once its faults are over. */
export type Ending = "answer" | "slow_answer" | "cut_answer" | "filtered" | "bad_request" | "too_long";

export interface SimulatedLine {
  /** Number in the input, from 1. */
  readonly line: number;
  readonly text: string;
  readonly kind: "item" | "bad" | "blank";
  /** Null where none can be read. */
  readonly key: string | null;
  readonly provider: string;
  readonly faults: readonly Fault[];
  readonly ending: Ending;
}

/** While it lasts, every request to the provider ends like this. */
export interface Window {
  readonly provider: string;
  readonly kind: "quota" | "overloaded" | "down";
  readonly fromMs: number;
  readonly untilMs: number;
}

/** Something that happens after so many requests were sent. */
export interface Trouble {
  readonly afterSends: number;
  readonly delayMs: number;
  readonly kind:
    | "kill"
    | "power_cut"
    | "stop"
    | "disk_full"
    | "output_sync_fails"
    | "store_full"
    | "store_fails"
    | "disk_dies_in_write"
    | "wall_jump";
  /** How long, how often or how far, as the kind needs. */
  readonly amount: number;
}

export interface Workload {
  readonly seed: number;
  readonly lines: readonly SimulatedLine[];
  readonly config: ConfigOptions;
  readonly isOrdered: boolean;
  /** Whether the input comes as a stream, piece by piece. */
  readonly isStream: boolean;
  readonly slaMinutes: number | undefined;
  readonly maxCostUsd: number | undefined;
  readonly diskLatencyMs: number;
  readonly commitMs: number;
  readonly latencyMs: number;
  readonly windows: readonly Window[];
  readonly troubles: readonly Trouble[];
}

export const PROVIDERS = ["alpha", "beta", "gamma"] as const;
const MODELS = ["alpha:m1", "alpha:m2", "beta:m1", "gamma:m1"] as const;
/** USD per million tokens of every model in the simulation. */
export const INPUT_USD = 1_000;
export const OUTPUT_USD = 5_000;

type Random = () => number;

export function drawWorkload(seed: number, random: Random): Workload {
  const count = 20 + Math.floor(random() ** 2 * 180);
  const hasFaults = random() < 0.8;
  const lines = Array.from({ length: count }, (_, index) => drawLine(index + 1, random, hasFaults));
  const hasMoney = random() < 0.2;
  return {
    seed,
    lines,
    config: drawConfig(random),
    isOrdered: random() < 0.25,
    slaMinutes: random() < 0.3 ? pick(random, [1, 2, 5, 20]) : undefined,
    maxCostUsd: hasMoney ? Math.max(0.5, count * pick(random, [0.02, 0.1, 0.4])) : undefined,
    diskLatencyMs: pick(random, [0, 0, 1, 20, 100]),
    commitMs: pick(random, [0, 1, 5, 100]),
    latencyMs: pick(random, [1, 20, 200, 2_000]),
    windows: hasFaults && random() < 0.3 ? [drawWindow(random)] : [],
    troubles: drawTroubles(random, count),
    isStream: random() < 0.3,
  };
}

export function pick<T>(random: Random, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)] as T;
}

function drawConfig(random: Random): ConfigOptions {
  const limits: Record<string, { requestsPerMinute?: number; concurrency?: number }> = {};
  for (const name of PROVIDERS) {
    const requestsPerMinute = pick(random, [undefined, undefined, 30, 120, 600]);
    const concurrency = pick(random, [undefined, undefined, 1, 4]);
    limits[name] = {
      ...(requestsPerMinute === undefined ? {} : { requestsPerMinute }),
      ...(concurrency === undefined ? {} : { concurrency }),
    };
  }
  return {
    providers: {
      alpha: { baseUrl: "http://alpha.test/v1", key: "alpha-key" },
      beta: { baseUrl: "http://beta.test/v1", key: "beta-key" },
      gamma: { baseUrl: "http://gamma.test", key: "gamma-key", protocol: "anthropic" },
    },
    limits,
    prices: Object.fromEntries(
      MODELS.map((model) => [model, { inputUsdPerMillion: INPUT_USD, outputUsdPerMillion: OUTPUT_USD }]),
    ),
    maxInFlight: pick(random, [2, 8, 64]),
    delivery: random() < 0.15 ? "at_most_once" : "at_least_once",
    attemptMsMax: 30_000,
  };
}

function drawLine(line: number, random: Random, hasFaults: boolean): SimulatedLine {
  const nothing = { line, provider: "", faults: [], ending: "answer" } as const;
  const lot = random();
  if (lot < 0.04) return { ...nothing, kind: "blank", key: null, text: pick(random, ["", "  ", "\r"]) };
  if (lot < 0.07)
    return { ...nothing, kind: "bad", key: null, text: pick(random, ['{"key": ', "[1]", "nonsense"]) };
  const key = keyOf(line, random);
  const model = pick(random, MODELS);
  if (lot < 0.1) {
    const request = pick(random, [
      { model: "nobody:m1", contents: [{ parts: [{ text: "x" }] }] },
      { model, contents: [] },
      { model, contents: [{ parts: [{ text: "x" }] }], generation_config: { temperature: "hot" } },
    ]);
    return { ...nothing, kind: "bad", key, text: JSON.stringify({ key, request }) };
  }
  const text = `[[${line}]] ${"word ".repeat(Math.floor(random() * 40))}`;
  const request = {
    model,
    contents: [{ role: "user", parts: [{ text }] }],
    ...(random() < 0.3 ? { system_instruction: { parts: [{ text: "Answer briefly." }] } } : {}),
    generation_config: { max_output_tokens: pick(random, [16, 32, 64]) },
  };
  return {
    line,
    kind: "item",
    key,
    text: JSON.stringify({ key, request }),
    provider: model.split(":")[0] ?? "",
    faults: hasFaults ? drawFaults(random) : [],
    ending:
      random() < 0.9
        ? "answer"
        : pick(random, ["slow_answer", "cut_answer", "filtered", "bad_request", "too_long"]),
  };
}

function keyOf(line: number, random: Random): string {
  return pick(random, [`key-${line}`, `key-${line}`, `ключ "${line}"`, `__proto__${line}`, `k/${line}\\ü`]);
}

/** At most two ambiguous and three free faults, in any order; most items have none. */
function drawFaults(random: Random): Fault[] {
  if (random() < 0.6) return [];
  const ambiguous = Array.from({ length: Math.floor(random() * 3) }, () => pick(random, AMBIGUOUS_FAULTS));
  const free = Array.from({ length: Math.floor(random() * 4) }, () => pick(random, FREE_FAULTS));
  const empties = ambiguous.filter((fault) => fault === "empty");
  const all = [...ambiguous.filter((fault) => fault !== "empty"), ...empties.slice(0, 1), ...free];
  return all
    .map((fault) => ({ fault, lot: random() }))
    .sort((a, b) => a.lot - b.lot)
    .map(({ fault }) => fault);
}

function drawWindow(random: Random): Window {
  const fromMs = Math.floor(random() * 20_000);
  return {
    provider: pick(random, PROVIDERS),
    kind: pick(random, ["quota", "overloaded", "down"]),
    fromMs,
    untilMs: fromMs + pick(random, [5_000, 30_000, 150_000]),
  };
}

function drawTroubles(random: Random, count: number): Trouble[] {
  const kinds: readonly Trouble["kind"][] = [
    "kill",
    "kill",
    "kill",
    "power_cut",
    "power_cut",
    "power_cut",
    "stop",
    "disk_full",
    "store_full",
    "output_sync_fails",
    "store_fails",
    "disk_dies_in_write",
    "wall_jump",
  ];
  if (random() < 0.15) return [];
  const troubles = Array.from({ length: 1 + Math.floor(random() * 5) }, (): Trouble => {
    const kind = pick(random, kinds);
    return {
      kind,
      afterSends: 1 + Math.floor(random() * count),
      delayMs: pick(random, [0, 0, 1, 5, 50, 1_000]),
      amount: amountOf(kind, random),
    };
  });
  return troubles.sort((a, b) => a.afterSends - b.afterSends);
}

function amountOf(kind: Trouble["kind"], random: Random): number {
  switch (kind) {
    case "disk_full":
      return pick(random, [300, 5_000, 40_000, 90_000]);
    case "store_full":
      return pick(random, [1, 5, 30]);
    case "disk_dies_in_write":
      return 1 + Math.floor(random() * 6);
    case "wall_jump":
      return pick(random, [3_600_000, -3_600_000]);
    default:
      return 0;
  }
}
