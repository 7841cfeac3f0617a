/**
 * The lanes of models, and the way to `place` (queue/planner.ts), which decides among them.
 *
 *   with its family --its provider does not know it, or refuses it to this key--> held, in a lane of its own
 *   held --a request for it is answered--> with its family
 *
 * A model that is held has its own lane, so that the lane's one pause holds nothing of its family, and what waits is
 * bounded where everything waits. Items that wait in the other lane move when it is their turn.
 */
import {
  type FamilySettings,
  familyOf,
  familyOfLane,
  type LaneKey,
  type LaneTerms,
  providerOfLane,
  realtimeLane,
} from "../../queue/lanes.ts";
import { type LanesNow, type ModelWays, type Placeable, place } from "../../queue/planner.ts";
import { parseModelId } from "../../work/request.ts";
import type { EngineConfig } from "../config/config.ts";

/** Models that have a lane by their family; all further ones of a provider share one lane, so that memory is bounded. */
const MODELS_MAX = 1_000;
const CROWD_FAMILY = "other";
/** Ends the family of a lane that holds a model. */
const HELD = " (held)";
/** One that wants to go at once. */
const A_REQUEST: Placeable = {
  items: 1,
  inputTokens: 0,
  expectedOutputTokens: 0,
  deadlineMs: Number.POSITIVE_INFINITY,
};

/** One for an engine. */
export class ModelLanes {
  readonly #families: FamilySettings;
  readonly #attemptMsMax: number | undefined;
  /** Of providers that have one of their own. */
  readonly #timeouts: ReadonlyMap<string, number | undefined>;
  readonly #now: LanesNow;
  readonly #ways = new Map<string, ModelWays>();
  readonly #held = new Map<string, LaneTerms>();

  constructor(
    { families, providers, attemptMsMax }: Pick<EngineConfig, "families" | "providers" | "attemptMsMax">,
    now: LanesNow,
  ) {
    this.#now = now;
    this.#families = families;
    this.#attemptMsMax = attemptMsMax;
    this.#timeouts = new Map(providers.map(({ name, timeoutMs }) => [name, timeoutMs]));
  }

  /** The lane that a ticket, or an item of one, belongs in now. */
  place(ticket: Placeable & { readonly model: string }): LaneTerms {
    return place(ticket, this.#waysOf(ticket.model), this.#now);
  }

  /** The lane that a request for a model, `<provider>:<name>`, would go to now. */
  of(model: string): LaneTerms {
    return place(A_REQUEST, this.#waysOf(model), this.#now);
  }

  /** Makes a separate lane for a model that is not available, and returns its key. */
  hold(model: string): LaneKey {
    const { provider = "", name = "" } = parseModelId(model) ?? {};
    const isCrowded = this.#held.size >= MODELS_MAX && !this.#held.has(model);
    const held = this.#terms(provider, `${isCrowded ? CROWD_FAMILY : name}${HELD}`);
    this.#held.set(model, held);
    return held.key;
  }

  /** A request for the model was answered; returns the key of the lane that held the model, undefined if no lane did. */
  answered(model: string): LaneKey | undefined {
    if (this.#held.size === 0) return undefined;
    const held = this.#held.get(model);
    if (held === undefined) return undefined;
    this.#held.delete(model);
    return held.key;
  }

  #waysOf(model: string): ModelWays {
    const held = this.#held.size === 0 ? undefined : this.#held.get(model);
    const known = this.#ways.get(model);
    if (known !== undefined) return held === undefined ? known : { ...known, held };
    const { provider = "", name = "" } = parseModelId(model) ?? {};
    const isCrowded = this.#ways.size >= MODELS_MAX;
    const family = isCrowded ? CROWD_FAMILY : familyOf(provider, name, this.#families);
    const ways: ModelWays = { lanes: [this.#terms(provider, family)] };
    if (!isCrowded) this.#ways.set(model, ways);
    return held === undefined ? ways : { ...ways, held };
  }

  /** Of a lane that an earlier process had, too. */
  termsOf(key: LaneKey): LaneTerms {
    return this.#terms(providerOfLane(key), familyOfLane(key));
  }

  #terms(provider: string, family: string): LaneTerms {
    return realtimeLane(provider, family, this.#timeouts.get(provider) ?? this.#attemptMsMax);
  }
}

/** The model that a lane of an earlier process held; undefined for one of several models. */
export function modelOfHeld(key: LaneKey): string | undefined {
  const name = familyOfLane(key).slice(0, -HELD.length);
  return name === CROWD_FAMILY ? undefined : `${providerOfLane(key)}:${name}`;
}
