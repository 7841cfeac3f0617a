/**
 * Which models take deferred requests. A refusal (400, 404, 422) may be the tier's or the request's own, so it takes several in a row,
 * while none was taken, to mean the model; and until one was, few are tried at once.
 *
 *   not known --a request is taken--> known: further refusals are the requests' own
 *       \--`REFUSALS_MAX` in a row--> off for six hours --> not known
 *
 * Limits: 1,000 models; beyond, all are forgotten and tried again.
 */
import type { Clock } from "../../clock.ts";

const OFF_MS = 6 * 3_600_000;
const REFUSALS_MAX = 3;
const MODELS_MAX = 1_000;

interface TriedModel {
  isKnown: boolean;
  refusals: number;
  /** Monotonic. */
  offUntilMs: number;
}

/** One for an engine. */
export class DeferredModels {
  readonly #clock: Pick<Clock, "nowMs">;
  readonly #models = new Map<string, TriedModel>();

  constructor(clock: Pick<Clock, "nowMs">) {
    this.#clock = clock;
  }

  /** Requests that may be open for a model because of what is known of it; Infinity once it has taken one. */
  openMaxOf(model: string): number {
    const { isKnown, refusals } = this.#models.get(model) ?? { isKnown: false, refusals: 0 };
    return isKnown ? Number.POSITIVE_INFINITY : REFUSALS_MAX - refusals;
  }

  isOff(model: string): boolean {
    return this.#clock.nowMs() < (this.#models.get(model)?.offUntilMs ?? Number.NEGATIVE_INFINITY);
  }

  /** Its provider has taken a request. */
  taken(model: string): void {
    Object.assign(this.#of(model), { isKnown: true, refusals: 0 });
  }

  /** Its provider has refused one for good. Returns whether the model is not tried again for some hours. */
  refused(name: string): boolean {
    const model = this.#of(name);
    if (model.isKnown) return false;
    model.refusals += 1;
    if (model.refusals < REFUSALS_MAX) return false;
    Object.assign(model, { refusals: 0, offUntilMs: this.#clock.nowMs() + OFF_MS });
    return true;
  }

  #of(name: string): TriedModel {
    if (this.#models.size >= MODELS_MAX && !this.#models.has(name)) this.#models.clear();
    const model = this.#models.get(name) ?? {
      isKnown: false,
      refusals: 0,
      offUntilMs: Number.NEGATIVE_INFINITY,
    };
    this.#models.set(name, model);
    return model;
  }
}
