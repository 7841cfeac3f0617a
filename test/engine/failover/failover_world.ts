/** A world with an alias of two models, at providers of which each can be down. */
import { type Answering, okFrom, type Reply, World, type WorldOptions } from "../world.ts";

export const ALIAS = "llama-70b";
const MODELS = { [ALIAS]: ["alpha:m1", "beta:m2"] } as const;
const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };

export interface FailoverOptions extends WorldOptions {
  /** What alpha answers; undefined for an answer as usual. */
  readonly alpha?: (nowMs: number, line: number, attempt: number) => Reply | undefined;
  readonly beta?: (nowMs: number, line: number, attempt: number) => Reply | undefined;
}

/** The input names the alias in each of `count` lines. */
export function failoverWorld(
  count: number,
  { alpha, beta, config, ...options }: FailoverOptions = {},
): World {
  const answer: Answering = (line, attempt, model, _body, origin) => {
    const own = (origin.includes("alpha") ? alpha : beta)?.(world.clock.nowMs(), line, attempt);
    return own ?? okFrom(line, model);
  };
  const world: World = new World({
    answer,
    config: {
      models: MODELS,
      prices: { "alpha:m1": PRICE, "beta:m2": { inputUsdPerMillion: 2, outputUsdPerMillion: 2 } },
      ...config,
    },
    ...options,
  });
  world.input(count, ALIAS);
  return world;
}

/** The model of each line of the output, in the order of the lines. */
export function answeredBy(world: World, path?: string): string[] {
  const models = world
    .output(path)
    .map((record) => [Number(record.key?.slice(1)), (record as unknown as { model: string }).model] as const);
  return models.sort(([left], [right]) => left - right).map(([, model]) => model);
}

/** So many of each model. */
export function counted(models: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const model of models) counts[model] = (counts[model] ?? 0) + 1;
  return counts;
}
