/**
 * The money of a run: opened with what earlier calls took and under the caps that bound it, left when the run is over here.
 */
import { Budget, Cap, type Taken } from "../../price/budget.ts";
import type { RateCard } from "../../price/factor.ts";
import type { CapOptions, MeasureOptions } from "../../shard/measure.ts";
import type { ModelAliases } from "../config/model_aliases.ts";
import type { EngineCore } from "../core.ts";
import type { CapTerms } from "../files/cap_terms.ts";

/** What caps are kept in, and what they stop. */
type BudgetCore = Pick<EngineCore, "storage" | "sending" | "caps">;

/** Output tokens of an item that has no limit of its own, where a cap needs a bound. */
const OUTPUT_TOKENS_MAX = 4_096;

/** What a run may cost, as its options say. */
export interface CostOptions {
  /** Hard cap in USD on what providers may charge for this run. */
  readonly maxCostUsd?: number;
  /** A cap that it shares with other runs of the data folder, by its name; the last amount counts. */
  readonly cap?: CapTerms;
  /** Sends what a cap cannot bound (audio, files, tools that the provider runs, models without a known price) all the same. */
  readonly maxCostUnbounded?: boolean;
}

/** With those that only the engine's own work sets. */
export interface EngineCostOptions extends CostOptions {
  /** Caps that others keep, which it takes from besides. */
  readonly caps?: readonly Cap[];
}

/** Under its own cap and those that it shares; it has joined them durably when this resolves. */
export async function openBudget(
  core: BudgetCore,
  taskId: string,
  { maxCostUsd, cap, caps = [] }: EngineCostOptions,
  taken: Taken,
): Promise<Budget> {
  const own = maxCostUsd === undefined ? [] : [new Cap(maxCostUsd)];
  const shared = await Promise.all(
    core.caps.termsOf(cap).map((terms) => core.storage.room.waitFor(() => core.caps.join(terms, taskId))),
  );
  return new Budget([...own, ...shared.map((capOf) => capOf()), ...caps], taken);
}

/** What it held is in doubt; runs that share a cap with it may go on. */
export async function leaveBudget(
  core: BudgetCore,
  taskId: string,
  { cap, caps = [] }: EngineCostOptions,
  budget: Budget,
): Promise<void> {
  budget.close();
  const shared = core.caps.termsOf(cap);
  for (const { name } of shared) await core.caps.leave(name, taskId, budget);
  if (shared.length + caps.length > 0) core.sending.lanes.pumpAll();
}

/** How items are measured under a cap. */
export function capOptions({ maxCostUnbounded }: CostOptions, { isCapped }: Budget): CapOptions | undefined {
  if (!isCapped) return undefined;
  return { outputTokens: OUTPUT_TOKENS_MAX, allowsUnbounded: maxCostUnbounded === true };
}

/**
 * How the lines of a run are measured; `model` instead of their own. A run whose `rateCard` was promised has no aliases: the price
 * factor of another model is another one.
 */
export function measuredWith(
  aliases: ModelAliases,
  model: string | undefined,
  options: CostOptions & {
    readonly rateCard?: RateCard;
    readonly schema?: string | undefined;
    readonly cache?: unknown;
  },
  budget: Budget,
): MeasureOptions {
  return {
    wantBodies: true,
    wantsKeys: options.cache !== undefined,
    modelOverride: model,
    aliases: options.rateCard === undefined ? aliases.first : undefined,
    cap: capOptions(options, budget),
    schema: options.schema,
  };
}
