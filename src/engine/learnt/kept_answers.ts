/**
 * What answers take (queue/answer_means.ts), kept for later processes. Sums and hashes of system prompts; no texts.
 *
 * Limits: 32 system prompts a model, those answered last.
 */
import type { AnswerMeans, AnswerSums } from "../../queue/answer_means.ts";
import type { JsonValue } from "../../store/learnt.ts";
import { isObject } from "../../work/json.ts";
import type { ModelFigures } from "./kept_by_model.ts";

const PROMPTS_MAX = 32;
const DIGITS = 6;

/** The means, as they are kept. */
export function keptAnswers(means: AnswerMeans): ModelFigures {
  return {
    restore: (model, kept) => {
      const sums = sumsOf(kept);
      if (sums !== undefined) means.restore(model, sums);
    },
    *changes() {
      for (const [model, sums] of means.changes()) yield [model, keptOf(sums)];
    },
  };
}

function keptOf({ all, promptsSeen, prompts }: AnswerSums): JsonValue {
  const kept = prompts.slice(-PROMPTS_MAX).map(([prompt, sums]) => [prompt, ...sums.map(rounded)]);
  return { all: all.map(rounded), promptsSeen, prompts: kept };
}

function rounded(sum: number): number {
  return Number(sum.toPrecision(DIGITS));
}

function sumsOf(kept: unknown): AnswerSums | undefined {
  if (!isObject(kept)) return undefined;
  const { all, promptsSeen, prompts } = kept;
  if (!isNumbers(all) || typeof promptsSeen !== "number" || !Array.isArray(prompts)) return undefined;
  const rows = prompts.filter(isNumbers);
  return { all, promptsSeen, prompts: rows.map(([prompt = 0, ...sums]) => [prompt, sums]) };
}

function isNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((each) => typeof each === "number");
}
