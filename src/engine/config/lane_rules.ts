/**
 * Which lanes the work of one owner may use, and how carefully: what the configuration says for all, for its project and for its
 * models, and what its call says.
 *
 *   allowed = by the configuration, by the project, by the model and by the call     (each narrows; none widens)
 *   policy, minOnTime = of the call, else of the configuration
 */
import { PerigeeError } from "../../errors.ts";
import { matchingKey } from "../../price/pattern.ts";
import {
  isChosen,
  keepsRealtime,
  type LaneChoices,
  type LanePolicy,
  laneFault,
  MIN_ON_TIME,
  type OfferKind,
  providerOfLane,
  REALTIME_NEEDED,
} from "../../queue/lane_choice.ts";
import type { LanePriors } from "../../queue/lane_priors.ts";
import { parseModelId } from "../../work/request.ts";
import { unknownProviderMessage } from "../../work/unknown_provider.ts";
import type { ConfigOptions } from "./config_options.ts";

/** What a configuration says of lanes, with its defaults. */
export interface LaneSettings {
  readonly choices: LaneChoices;
  readonly projects: Readonly<Record<string, LaneChoices>>;
  /** By `<provider>:<model>`, `*` allowed at the end. */
  readonly models: Readonly<Record<string, LaneChoices>>;
  readonly policy: LanePolicy;
  readonly minOnTime: number;
  /** Between two polls of a batch, at least and at most. */
  readonly pollMs: { readonly min: number; readonly max: number };
  /** For how long a batch is looked for that may have been created. */
  readonly adoptMs: number;
  /** Items of a batch at least, while more may follow. */
  readonly minItems: number;
  readonly priors: LanePriors;
  /** Days and spans of days in China on which prices by the clock are low; see `OffPeakDays`. */
  readonly offPeakDays: readonly string[];
}

/** What one call may say of lanes. */
export interface LaneOptions {
  /** Which lanes the run may use, of those that the configuration allows; names as in the configuration. */
  readonly lanes?: LaneChoices;
  /** How its price weighs against its deadline; default: the engine's. */
  readonly policy?: LanePolicy;
  /** Share of its answers in realtime whose time is kept before the deadline, 0.5 to 0.9999; default: the engine's. */
  readonly minOnTime?: number;
}

/** The same for the items of an owner. */
export interface LaneRules {
  readonly lanes: AllowedLanes;
  readonly policy: LanePolicy;
  readonly minOnTime: number;
}

const POLL_SECONDS = { min: 30, max: 300 } as const;
const ADOPT_SECONDS = 120;
/** A batch of fewer costs as many requests to create, poll and collect as one of 50,000. */
const MIN_ITEMS = 100;

/** What checked options say. */
export function laneSettings({ lanes = {}, policy, minOnTime, projects }: ConfigOptions): LaneSettings {
  const {
    allow,
    deny,
    models = {},
    pollSeconds,
    adoptSeconds = ADOPT_SECONDS,
    minItems,
    priors,
    offPeakDays = [],
  } = lanes;
  const { min, max } = pollSecondsOf(pollSeconds);
  return {
    choices: { ...(allow === undefined ? {} : { allow }), ...(deny === undefined ? {} : { deny }) },
    projects: Object.fromEntries(
      Object.entries(projects ?? {}).map(([name, terms]) => [name, terms.lanes ?? {}]),
    ),
    models,
    policy: policy ?? "cheapest",
    minOnTime: minOnTime ?? MIN_ON_TIME.usual,
    pollMs: { min: min * 1_000, max: max * 1_000 },
    adoptMs: adoptSeconds * 1_000,
    minItems: minItems ?? MIN_ITEMS,
    priors: priors ?? {},
    offPeakDays,
  };
}

/** One bound alone moves the other one, where its default would contradict it. */
function pollSecondsOf(given: { readonly min?: number; readonly max?: number } = {}): {
  readonly min: number;
  readonly max: number;
} {
  const { min = Math.min(POLL_SECONDS.min, given.max ?? POLL_SECONDS.min) } = given;
  return { min, max: given.max ?? Math.max(min, POLL_SECONDS.max) };
}

/** The rules for work of a project, by what its call says. */
export function laneRules(
  settings: LaneSettings,
  { project, lanes, policy = settings.policy, minOnTime }: LaneOptions & { readonly project?: string },
): LaneRules {
  const ofProject =
    project !== undefined && Object.hasOwn(settings.projects, project)
      ? settings.projects[project]
      : undefined;
  const levels = [settings.choices, ofProject, lanes].filter((choices) => choices !== undefined);
  return {
    lanes: new AllowedLanes(policy === "fastest" ? [NOTHING] : levels, settings.models),
    policy,
    minOnTime: minOnTime ?? settings.minOnTime,
  };
}

const NOTHING: LaneChoices = { allow: [] };

/** Models of one owner that are remembered; beyond, all are looked up again. */
const MODELS_MAX = 1_000;

/** Hot path: asked for each item that could be sent. */
export class AllowedLanes {
  readonly #levels: readonly LaneChoices[];
  readonly #models: Readonly<Record<string, LaneChoices>>;
  readonly #known = new Map<string, boolean>();

  constructor(levels: readonly LaneChoices[], models: Readonly<Record<string, LaneChoices>>) {
    this.#levels = levels;
    this.#models = models;
  }

  /** Whether a model, `<provider>:<name>`, may be asked in a kind of lane. */
  allows(kind: OfferKind, model: string): boolean {
    const name = `${kind} ${model}`;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const { provider = "" } = parseModelId(model) ?? {};
    const key = matchingKey(this.#models, model);
    const levels = key === undefined ? this.#levels : [...this.#levels, this.#models[key] ?? {}];
    const isAllowed = levels.every((choices) => isChosen(provider, kind, choices));
    if (this.#known.size >= MODELS_MAX) this.#known.clear();
    this.#known.set(name, isAllowed);
    return isAllowed;
  }
}

/** Throws `usage` for names of lanes that do not exist, of a call to an engine with these providers; `where` names the call. */
export function checkLaneOptions(
  { lanes = {}, minOnTime }: LaneOptions,
  providers: ReadonlySet<string>,
  where: string,
): void {
  for (const [list, names] of Object.entries(lanes)) {
    for (const name of names ?? []) {
      const fault = typeof name === "string" ? faultOf(name, providers) : "the name of a lane must be a text";
      if (fault !== undefined) throw new PerigeeError("usage", `${where}: lanes.${list}: ${fault}`);
    }
  }
  if (!keepsRealtime(lanes)) throw new PerigeeError("usage", `${where}: lanes.deny: ${REALTIME_NEEDED}`);
  if (minOnTime === undefined || (minOnTime >= MIN_ON_TIME.least && minOnTime <= MIN_ON_TIME.most)) return;
  const { least, most } = MIN_ON_TIME;
  throw new PerigeeError(
    "usage",
    `${where}: minOnTime must be a number from ${least} to ${most}, got ${minOnTime}`,
  );
}

function faultOf(name: string, providers: ReadonlySet<string>): string | undefined {
  const provider = providerOfLane(name);
  const fault = laneFault(name);
  if (fault !== undefined || provider === undefined || providers.has(provider)) return fault;
  return unknownProviderMessage(provider, providers);
}
