/**
 * What became of the items of one simulation: counts and money by lane, times and losses by model.
 */
import type { FileShape } from "./file_shape.ts";

/** How an item was answered. */
export type AnswerKind = "realtime" | "flex" | "slow" | "batch";

/** Of one kind of answer at one provider. */
export interface LaneTally {
  readonly provider: string;
  readonly kind: AnswerKind;
  items: number;
  listUsd: number;
  billedUsd: number;
}

/** Of one model. */
export interface ModelTally {
  /** When its last item was answered, or given up. */
  endMs: number;
  /** Not answered by the deadline. */
  missed: number;
  /** Not sent, for want of money. */
  left: number;
}

export class SimulationTally {
  readonly lanes: Map<string, LaneTally> = new Map();
  readonly models: readonly ModelTally[];
  /** What providers bill for batches whose results came too late or were lost. */
  doubleUsd = 0;
  /** Requests and refusals, of all lanes. */
  requests = 0;
  readonly #shape: FileShape;
  readonly #maxUsd: number;
  /** Billed, and expected of what is under way. */
  #usd = 0;

  /** `maxUsd`: a cap on what is billed; Infinity without one. */
  constructor(shape: FileShape, maxUsd: number) {
    this.#shape = shape;
    this.#maxUsd = maxUsd;
    this.models = shape.models.map(() => ({ endMs: 0, missed: 0, left: 0 }));
  }

  get billedUsd(): number {
    let usd = this.doubleUsd;
    for (const lane of this.lanes.values()) usd += lane.billedUsd;
    return usd;
  }

  /** Whether there is money for an item at list price; takes it then. */
  pays(row: number): boolean {
    const usd = this.#usd + (this.#shape.listUsd[row] as number);
    if (usd > this.#maxUsd) return false;
    this.#usd = usd;
    return true;
  }

  /** The money of an item that was not answered is free again. */
  returns(row: number): void {
    this.#usd -= this.#shape.listUsd[row] as number;
  }

  /** `factor`: what the provider takes of its list price. */
  answered(row: number, lane: LaneTally, factor: number, atMs: number): void {
    const listUsd = this.#shape.listUsd[row] as number;
    lane.items += 1;
    lane.listUsd += listUsd;
    lane.billedUsd += listUsd * factor;
    this.#usd -= listUsd * (1 - factor);
    this.#ended(row, atMs);
  }

  missed(row: number, atMs: number): void {
    this.#modelOf(row).missed += 1;
    this.#ended(row, atMs);
  }

  left(row: number): void {
    this.#modelOf(row).left += 1;
  }

  laneOf(provider: string, kind: AnswerKind): LaneTally {
    const name = `${provider}:${kind}`;
    const known = this.lanes.get(name) ?? { provider, kind, items: 0, listUsd: 0, billedUsd: 0 };
    this.lanes.set(name, known);
    return known;
  }

  #ended(row: number, atMs: number): void {
    const model = this.#modelOf(row);
    if (atMs > model.endMs) model.endMs = atMs;
  }

  #modelOf(row: number): ModelTally {
    return this.models[this.#shape.modelOf[row] as number] as ModelTally;
  }
}
