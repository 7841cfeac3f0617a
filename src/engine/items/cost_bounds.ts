/**
 * How far the bounds of what a request may cost can be believed, model by model, and how many requests that allows.
 *
 *   unproven   no answer has kept its output limit yet: 4 requests in flight under a cap; one of them with a limit is enough where what
 *              waits could go at a lower price once it is proven (`isOnTrial`), as long as fewer than 4 such have shown nothing
 *      | an answer keeps it (remembered for later processes)
 *      v
 *   proven     as many as there is money for
 *      | an answer costs more than its bound
 *      v
 *   correcting nothing new until the requests in flight have ended; then bounds are as much higher as the answer showed, a
 *              tenth on top, and 4 requests are in flight for good: `doubted`
 *
 *   factor = max(factor, cost of an answer / bound of its request before any factor x 1.1)
 *
 * Requests in flight all break the bound that they were sent with, and say the same again: the factor is the largest that
 * any of them shows, never a product. It is not kept for later processes: they find it again with their first 4 requests.
 *
 * An excess is at most that of the 4 requests of an unproven model, or of those in flight when a proven one breaks its word.
 * Hot path: once a request and once an answer, some map look-ups.
 */
import type { ProviderSettings } from "../../providers/provider.ts";
import { accountName, type LearntStore } from "../../store/learnt.ts";
import { parseModelId } from "../../work/request.ts";

/** Requests in flight of a model whose bounds are not proven. */
const UNPROVEN_MAX = 4;
/** On top of what an answer showed. */
const MARGIN = 1.1;
/** What sums of fractions may differ by. */
const ROUNDING = 1 + 1e-9;
const KIND = "output_limit";
/** The most models that are kept; models without a bound to keep are read again. */
const MODELS_MAX = 10_000;

interface ModelBound {
  /** Of the bound that is reckoned beforehand; from 1. */
  factor: number;
  trust: "unproven" | "proven" | "doubted";
  /** Requests in flight that reserved money under a cap. */
  inFlight: number;
  /** Of them, those that reserved before the bound was raised. */
  outdated: number;
  /** Times that it was raised. */
  raises: number;
  /** Requests in flight whose answers may prove it. */
  trials: number;
  /** Trials that were sent and have proven nothing: they failed, or had no usage. */
  fruitless: number;
}

/** The reservation of a request's money; to be passed to `ended`. */
export interface BoundedRequest {
  readonly model: string;
  readonly raises: number;
  readonly isTrial: boolean;
}

/** One for an engine. */
export class CostBounds {
  readonly #learnt: LearntStore;
  /** What figures of a provider's models are remembered under. */
  readonly #accounts: ReadonlyMap<string, string>;
  readonly #models = new Map<string, ModelBound>();

  constructor(learnt: LearntStore, providers: readonly ProviderSettings[]) {
    this.#learnt = learnt;
    this.#accounts = new Map(providers.map((settings) => [settings.name, accountName(settings)]));
  }

  /** What a bound in USD must be multiplied by. */
  factorOf(model: string): number {
    return this.#models.get(model)?.factor ?? 1;
  }

  /** Whether answers of a model have kept their limits, and none has broken its word. */
  isProven(model: string): boolean {
    return this.#of(model).trust === "proven";
  }

  /** Whether one more request may reserve money now; those in flight end and let others in. */
  mayBegin(model: string): boolean {
    const bound = this.#of(model);
    return bound.outdated === 0 && (bound.trust === "proven" || bound.inFlight < UNPROVEN_MAX);
  }

  /** Whether a request in flight will probably show soon whether an unproven model keeps its limits. */
  isOnTrial(model: string): boolean {
    const { trust, trials, fruitless } = this.#of(model);
    return trust === "unproven" && trials > 0 && fruitless < UNPROVEN_MAX;
  }

  /** One did. `hasLimit`: it has an output limit. */
  begun(model: string, hasLimit: boolean): BoundedRequest {
    const bound = this.#of(model);
    const isTrial = bound.trust === "unproven" && hasLimit;
    bound.inFlight += 1;
    if (isTrial) bound.trials += 1;
    return { model, raises: bound.raises, isTrial };
  }

  /** It ended, whether it was sent or not. */
  ended({ model, raises, isTrial }: BoundedRequest, isSent: boolean): void {
    const bound = this.#of(model);
    bound.inFlight -= 1;
    if (raises < bound.raises) bound.outdated -= 1;
    if (!isTrial) return;
    bound.trials -= 1;
    if (isSent && bound.trust === "unproven") bound.fruitless += 1;
  }

  /** The cost and tokens of an answer with usage, before its request has `ended`. */
  answered(
    model: string,
    answer: {
      readonly billedUsd: number;
      /** The bound that its request was sent with. */
      readonly mostUsd: number;
      /** The factor in that bound. */
      readonly factor: number;
      readonly outputTokens: number;
      /** 0 without one. */
      readonly outputLimit: number;
    },
  ): void {
    const bound = this.#of(model);
    const { billedUsd, mostUsd, factor, outputTokens, outputLimit } = answer;
    const isOver = billedUsd > mostUsd * ROUNDING;
    const shown = mostUsd > 0 ? billedUsd / (mostUsd / factor) : 1;
    if (isOver && shown > bound.factor * ROUNDING) {
      bound.factor = Math.max(bound.factor, shown * MARGIN);
      bound.raises += 1;
      bound.outdated = bound.inFlight;
    }
    const hasBroken = isOver || (outputLimit > 0 && outputTokens > outputLimit);
    const trust = hasBroken
      ? "doubted"
      : bound.trust === "unproven" && outputLimit > 0
        ? "proven"
        : bound.trust;
    if (trust === bound.trust) return;
    bound.trust = trust;
    this.#learnt.put(KIND, this.#keyOf(model), trust);
  }

  #keyOf(model: string): string {
    const { provider = "", name = "" } = parseModelId(model) ?? {};
    return `${this.#accounts.get(provider) ?? provider} ${name}`;
  }

  #of(model: string): ModelBound {
    let bound = this.#models.get(model);
    if (bound === undefined) {
      if (this.#models.size >= MODELS_MAX) this.#forget();
      const learnt = this.#learnt.get(KIND, this.#keyOf(model));
      const trust = learnt === "proven" || learnt === "doubted" ? learnt : "unproven";
      bound = { factor: 1, trust, inFlight: 0, outdated: 0, raises: 0, trials: 0, fruitless: 0 };
      this.#models.set(model, bound);
    }
    return bound;
  }

  #forget(): void {
    for (const [model, { inFlight, factor }] of this.#models)
      if (inFlight === 0 && factor === 1) this.#models.delete(model);
  }
}
