/**
 * What one simulation is asked to do, all drawn from its seed: the runs and their lines, what each line must come to,
 * the terms, and the troubles of the world around them.
 *
 * A prompt carries its line's id in `[[id]]`, so that the provider knows what it is asked. Faults of an item are
 * bounded so that the retry policy must get past them; windows in which a whole provider fails end after some minutes.
 */
import type { ConfigOptions } from "../../src/engine/config/config.ts";
import { type Again, drawAgain, newLinesOf } from "./again.ts";
import { drawnBy, type Feature } from "./features.ts";
import { drawFlex, drawFlexSla, FLEX_PROVIDER, type FlexTier, QUIET, QUIET_SHARE } from "./flex_tier.ts";

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
/** More failures than any item may have while others are answered. */
const POISON_FAILURES = 12;

/** How an item ends once its faults are over. */
export type Ending = "answer" | "slow_answer" | "cut_answer" | "filtered" | "bad_request" | "too_long";

export interface SimulatedLine {
  /** Over all runs: the run's index times 10,000, and the line's number; of lines of a changed input 5,000 more. */
  readonly id: number;
  /** Number in the input, from 1. */
  readonly line: number;
  readonly run: number;
  readonly text: string;
  readonly kind: "item" | "bad" | "blank";
  /** Null where none can be read. */
  readonly key: string | null;
  readonly provider: string;
  readonly model: string;
  readonly faults: readonly Fault[];
  readonly ending: Ending;
}

export interface SimulatedRun {
  readonly index: number;
  readonly lines: readonly SimulatedLine[];
  readonly isOrdered: boolean;
  /** Whether the input comes as a stream, piece by piece. */
  readonly isStream: boolean;
  readonly slaMinutes: number | undefined;
  readonly maxCostUsd: number | undefined;
  /** Whether it shares the cap of the workload. */
  readonly isCapShared: boolean;
  readonly waitMs: number | undefined;
  /** What it is called again for when it is finished. */
  readonly again: readonly Again[];
  readonly project: string | undefined;
  /** When it is called for the first time. */
  readonly startMs: number;
}

export type WindowKind =
  | "quota"
  | "key_refused"
  | "swamped"
  | "down"
  | "throttled"
  | "bad_gateway"
  | "reset"
  | "dead";

/** While it lasts, every request to the provider ends like this. It opens with a request to the provider. */
export interface Window {
  readonly provider: string;
  readonly kind: WindowKind;
  /** How many requests to the provider come before. */
  readonly afterSends: number;
  readonly lastsMs: number;
}

export type TroubleKind =
  | "kill"
  | "power_cut"
  | "stop"
  | "disk_full"
  | "output_sync_fails"
  | "store_full"
  | "store_fails"
  | "disk_dies_in_write"
  | "wall_jump"
  | "reconfigure";

/** Something that happens after so many requests were sent. */
export interface Trouble {
  readonly afterSends: number;
  readonly delayMs: number;
  readonly kind: TroubleKind;
  /** How long, how often or how far, as the kind needs. */
  readonly amount: number;
}

export const FEATURE_OF_TROUBLE: Readonly<Record<TroubleKind, Feature>> = {
  kill: "kill",
  power_cut: "power_cut",
  stop: "stop",
  disk_full: "disk_full",
  store_full: "store_full",
  output_sync_fails: "disk_error",
  store_fails: "disk_error",
  disk_dies_in_write: "disk_error",
  wall_jump: "wall_jump",
  reconfigure: "provider_missing",
};

export const FEATURE_OF_WINDOW: Readonly<Record<WindowKind, Feature>> = {
  quota: "quota_stop",
  key_refused: "key_refused",
  throttled: "throttled",
  swamped: "outage",
  down: "outage",
  bad_gateway: "outage",
  reset: "outage",
  dead: "outage",
};
/** They take effect when something happens; all others do so when they are drawn. */
export const HAPPENING: ReadonlySet<Feature> = new Set([
  ...Object.values(FEATURE_OF_TROUBLE),
  ...Object.values(FEATURE_OF_WINDOW),
  "cap_raised",
  "retry",
  "update",
]);

/** Faults end within minutes; later it hangs. Retry-After may ask for 15 min, quota waits for probes. */
const LIVENESS_MS = 180 * 60_000;

/** In milliseconds, all runs are over, whatever happens; work waits for a cheaper tier until its deadline. */
export function livenessMs({ flex, runs }: Pick<Workload, "flex" | "runs">): number {
  const minutes = flex === undefined ? 0 : Math.max(...runs.map(({ slaMinutes = 0 }) => slaMinutes));
  return LIVENESS_MS + minutes * 60_000;
}

/** Without it the next engines are configured. */
export function missingProviderOf({ seed, lines }: Pick<Workload, "seed" | "lines">): string {
  const named = lines.filter(({ kind }) => kind === "item").map(({ provider }) => provider);
  return named[seed % Math.max(1, named.length)] ?? "beta";
}

export interface Workload {
  readonly seed: number;
  readonly features: ReadonlySet<Feature>;
  /** Names of those that the configuration knows. */
  readonly providers: readonly string[];
  /** What its first provider does to requests in its cheaper tier; undefined where it does not have one. */
  readonly flex: FlexTier | undefined;
  readonly runs: readonly SimulatedRun[];
  /** Of all that their runs share by its name. */
  readonly sharedCapUsd: number | undefined;
  /** Of all runs, those of changed inputs included. */
  readonly lines: readonly SimulatedLine[];
  readonly config: ConfigOptions;
  readonly diskLatencyMs: number;
  readonly commitMs: number;
  readonly latencyMs: number;
  readonly windows: readonly Window[];
  readonly troubles: readonly Trouble[];
}

const MODELS = ["alpha:m1", "beta:m1", "gamma:m1"] as const;
const MORE_MODELS = [...MODELS, "alpha:m2", "alpha:m3", "gamma:m2"] as const;
/** USD per million tokens of every model in the simulation. */
export const INPUT_USD = 1_000;
export const OUTPUT_USD = 5_000;

export type Random = () => number;
const EXTRA_SHARE = 0.12;
export function drawWorkload(seed: number, random: Random): Workload {
  const features = drawFeatures(seed, random);
  const has = (feature: Feature): boolean => features.has(feature);
  const count = 20 + Math.floor(random() ** 2 * 180);
  const isOfSeveral = has("shared_cap") || (has("stream") && has("update")); // an update is of a file
  const runCount = has("projects") ? 2 + Math.floor(random() * 2) : isOfSeveral ? 2 : 1;
  const drawnModels = has("models")
    ? MORE_MODELS.slice(0, 4 + Math.floor(random() * 3))
    : pickSome(random, MODELS);
  const models = has("flex") ? withFlex(drawnModels) : drawnModels;
  const runs = Array.from({ length: runCount }, (_, index): SimulatedRun => {
    const lineCount = Math.max(6, Math.ceil(count / runCount));
    const place = { run: index, models, features };
    const drawn = Array.from({ length: lineCount }, (__, line) =>
      drawLine({ ...place, line: line + 1, id: index * 10_000 + line + 1 }, random),
    );
    const isOrdered = has("ordered") && (index === 0 || random() < 0.5);
    const isStream = has("stream") && (index === 0 || (!has("update") && random() < 0.5));
    return {
      index,
      lines: drawn,
      isCapShared: has("shared_cap") && (index < 2 || random() < 0.5),
      waitMs: has("waits") && (index === 0 || random() < 0.5) ? pick(random, [0, 5_000, 60_000]) : undefined,
      again: drawAgain(drawn, { ...place, isStream }, random),
      isOrdered,
      isStream,
      slaMinutes: drawSla(random, features, index),
      maxCostUsd:
        has("cap") && (index === 0 || random() < 0.5)
          ? Math.max(0.5, lineCount * pick(random, [0.02, 0.1, 0.4]))
          : undefined,
      project: has("projects") ? pick(random, ["red", "green", "blue"]) : undefined,
      startMs: index === 0 ? 0 : Math.floor(random() * 5_000),
    };
  });
  const lines = runs.flatMap((run) => [...run.lines, ...newLinesOf(run)]);
  return {
    seed,
    features,
    providers: providersOf(features),
    runs,
    sharedCapUsd: has("shared_cap") ? Math.max(0.5, count * pick(random, [0.02, 0.1, 0.4])) : undefined,
    lines,
    config: drawConfig(random, features),
    diskLatencyMs: pick(random, [0, 0, 1, 20, 100]),
    commitMs: pick(random, [0, 1, 5, 100]),
    latencyMs: pick(random, [1, 20, 200, 2_000]),
    windows: drawWindows(random, features, lines),
    troubles: drawTroubles(random, features, lines.length),
    flex: has("flex") ? drawFlex(random, models) : undefined,
  };
}

/** The first one has a cheaper tier where there is one: the engine knows that by its name. */
function providersOf(features: ReadonlySet<Feature>): readonly string[] {
  return [features.has("flex") ? FLEX_PROVIDER : "alpha", "beta", "gamma"];
}

/** At least one is of the provider with a cheaper tier. */
function withFlex(models: readonly string[]): readonly string[] {
  const renamed = models.map((model) => model.replace(/^alpha:/, `${FLEX_PROVIDER}:`));
  return renamed.some((model) => model.startsWith(FLEX_PROVIDER))
    ? renamed
    : [`${FLEX_PROVIDER}:m1`, ...renamed];
}

function drawSla(random: Random, features: ReadonlySet<Feature>, index: number): number | undefined {
  if (!features.has("deadline") || (index > 0 && random() >= 0.5)) return undefined;
  return features.has("flex") ? drawFlexSla(random) : pick(random, [1, 2, 5, 20]);
}

export function pick<T>(random: Random, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)] as T;
}

function pickSome<T>(random: Random, from: readonly T[]): readonly T[] {
  const some = from.filter(() => random() < 0.6);
  return some.length === 0 ? [pick(random, from)] : some;
}

function drawFeatures(seed: number, random: Random): ReadonlySet<Feature> {
  const { features, pair } = drawnBy(seed);
  const drawn = new Set(features.filter((feature) => random() < EXTRA_SHARE || pair.includes(feature)));
  if (drawn.has("flex")) drawn.add("deadline");
  if (drawn.has("flex") && random() < QUIET_SHARE)
    for (const feature of drawn) if (!QUIET.has(feature) && !pair.includes(feature)) drawn.delete(feature);
  if (drawn.has("cap_raised")) drawn.add("cap");
  return drawn;
}

function drawConfig(random: Random, features: ReadonlySet<Feature>): ConfigOptions {
  const limits: Record<string, { requestsPerMinute?: number; concurrency?: number }> = {};
  const names = providersOf(features);
  const [first = ""] = names;
  for (const name of names) {
    const isLimited = features.has("shared_limit") && (name === first || random() < 0.5);
    const isNarrow = features.has("concurrency") && (name === first || random() < 0.5);
    limits[name] = {
      ...(isLimited ? { requestsPerMinute: pick(random, [30, 120, 600]) } : {}),
      ...(isNarrow ? { concurrency: pick(random, [1, 2, 4]) } : {}),
    };
  }
  return {
    providers: {
      [first]: { baseUrl: "http://alpha.test/v1", key: "alpha-key" },
      beta: { baseUrl: "http://beta.test/v1", key: "beta-key" },
      gamma: { baseUrl: "http://gamma.test", key: "gamma-key", protocol: "anthropic" },
    },
    limits,
    prices: Object.fromEntries(
      (features.has("flex") ? withFlex(MORE_MODELS) : MORE_MODELS).map((model) => [
        model,
        { inputUsdPerMillion: INPUT_USD, outputUsdPerMillion: OUTPUT_USD },
      ]),
    ),
    maxInFlight: pick(random, [2, 8, 64]),
    delivery: features.has("at_most_once") ? "at_most_once" : "at_least_once",
    attemptMsMax: 30_000,
  };
}

export interface LinePlace {
  readonly run: number;
  readonly id: number;
  readonly line: number;
  readonly models: readonly string[];
  readonly features: ReadonlySet<Feature>;
}

/** One line of an input. */
export function drawLine({ run, id, line, models, features }: LinePlace, random: Random): SimulatedLine {
  const nothing = { id, run, line, provider: "", model: "", faults: [], ending: "answer" } as const;
  const lot = random();
  if (lot < 0.04) return { ...nothing, kind: "blank", key: null, text: pick(random, ["", "  ", "\r"]) };
  if (lot < 0.07)
    return { ...nothing, kind: "bad", key: null, text: pick(random, ['{"key": ', "[1]", "nonsense"]) };
  const key = keyOf(line, random);
  const model = pick(random, models);
  if (lot < 0.1) {
    const request = pick(random, [
      { model: "nobody:m1", contents: [{ parts: [{ text: "x" }] }] },
      { model, contents: [] },
      { model, contents: [{ parts: [{ text: "x" }] }], generation_config: { temperature: "hot" } },
    ]);
    return { ...nothing, kind: "bad", key, text: JSON.stringify({ key, request }) };
  }
  const text = `[[${id}]] ${"word ".repeat(Math.floor(random() * 40))}`;
  const request = {
    model,
    contents: [{ role: "user", parts: [{ text }] }],
    ...(random() < 0.3 ? { system_instruction: { parts: [{ text: "Answer briefly." }] } } : {}),
    generation_config: { max_output_tokens: pick(random, [16, 32, 64]) },
  };
  return {
    id,
    run,
    line,
    kind: "item",
    key,
    text: JSON.stringify({ key, request }),
    provider: model.split(":")[0] ?? "",
    model,
    faults: drawFaults(random, features),
    ending:
      random() < 0.9
        ? "answer"
        : pick(random, ["slow_answer", "cut_answer", "filtered", "bad_request", "too_long"]),
  };
}

function keyOf(line: number, random: Random): string {
  return pick(random, [`key-${line}`, `key-${line}`, `ключ "${line}"`, `__proto__${line}`, `k/${line}\\ü`]);
}

/** At most two ambiguous and three free faults, in any order; most items have none, a poisoned one a dozen. */
function drawFaults(random: Random, features: ReadonlySet<Feature>): Fault[] {
  if (features.has("poison") && random() < 0.1) {
    const fault = pick(random, ["server_error", "unavailable", "not_sent", "gateway_timeout"] as const);
    return Array.from({ length: POISON_FAILURES }, () => fault);
  }
  if (!features.has("faults") || random() < 0.6) return [];
  const ambiguous = Array.from({ length: Math.floor(random() * 3) }, () => pick(random, AMBIGUOUS_FAULTS));
  const free = Array.from({ length: Math.floor(random() * 4) }, () => pick(random, FREE_FAULTS));
  const empties = ambiguous.filter((fault) => fault === "empty");
  const all = [...ambiguous.filter((fault) => fault !== "empty"), ...empties.slice(0, 1), ...free];
  return all
    .map((fault) => ({ fault, lot: random() }))
    .sort((a, b) => a.lot - b.lot)
    .map(({ fault }) => fault);
}

const WINDOW_KINDS: Readonly<Partial<Record<Feature, readonly WindowKind[]>>> = {
  outage: ["swamped", "down", "down", "bad_gateway", "reset", "dead"],
  throttled: ["throttled"],
  quota_stop: ["quota"],
  key_refused: ["key_refused"],
};

function drawWindows(
  random: Random,
  features: ReadonlySet<Feature>,
  lines: readonly SimulatedLine[],
): readonly Window[] {
  const items = lines.filter(({ kind }) => kind === "item");
  return Object.entries(WINDOW_KINDS).flatMap(([feature, kinds]): Window[] => {
    if (!features.has(feature as Feature) || items.length === 0) return [];
    const { provider } = pick(random, items);
    const sends = items.filter((line) => line.provider === provider).length;
    return [
      {
        provider,
        kind: pick(random, kinds),
        afterSends: Math.floor(random() * sends),
        lastsMs: pick(random, [5_000, 45_000, 150_000, 600_000]),
      },
    ];
  });
}

const TROUBLE_KINDS: Readonly<Partial<Record<Feature, readonly TroubleKind[]>>> = {
  kill: ["kill"],
  power_cut: ["power_cut"],
  stop: ["stop"],
  disk_full: ["disk_full"],
  store_full: ["store_full"],
  disk_error: ["output_sync_fails", "store_fails", "disk_dies_in_write"],
  wall_jump: ["wall_jump"],
  provider_missing: ["reconfigure"],
};

/** One to three of each kind that is drawn. */
function drawTroubles(random: Random, features: ReadonlySet<Feature>, count: number): Trouble[] {
  const troubles = Object.entries(TROUBLE_KINDS).flatMap(([feature, kinds]) => {
    if (!features.has(feature as Feature)) return [];
    return Array.from({ length: 1 + Math.floor(random() * 3) }, (): Trouble => {
      const kind = pick(random, kinds);
      return {
        kind,
        afterSends: 1 + Math.floor(random() * count * 0.8),
        delayMs: pick(random, [0, 0, 1, 5, 50, 1_000]),
        amount: amountOf(kind, random),
      };
    });
  });
  return troubles.sort((a, b) => a.afterSends - b.afterSends);
}

function amountOf(kind: TroubleKind, random: Random): number {
  switch (kind) {
    case "disk_full":
      return pick(random, [300, 5_000, 40_000, 90_000]);
    case "store_full":
      return pick(random, [1, 5, 30]);
    case "disk_dies_in_write":
      return 1 + Math.floor(random() * 6);
    case "wall_jump":
      return pick(random, [7_200_000, -7_200_000]);
    case "reconfigure":
      return pick(random, [1, 2]);
    default:
      return 0;
  }
}

/** A configuration that does not know one of its providers. */
export function configWithout(config: ConfigOptions, provider: string | undefined): ConfigOptions {
  if (provider === undefined) return config;
  const isOther = ([name]: [string, unknown]): boolean => name.split(":")[0] !== provider;
  const others = <T extends object>(entries: T | undefined): T =>
    Object.fromEntries(Object.entries(entries ?? {}).filter(isOther)) as T;
  const { providers, limits, prices } = config;
  return {
    ...config,
    providers: others(providers),
    limits: others(limits),
    ...(prices === undefined ? {} : { prices: others(prices) }),
  };
}
