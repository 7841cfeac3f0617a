/**
 * What an engine learns of models, and begins with as earlier processes have left it.
 */
import type { ProviderSettings } from "../providers/provider.ts";
import { AnswerMeans } from "../schedule/answer_means.ts";
import { Latencies } from "../schedule/latency.ts";
import type { LearntStore } from "../store/learnt.ts";
import { keptAnswers } from "./kept_answers.ts";
import { keepByModel } from "./kept_by_model.ts";
import { keptLatencies } from "./kept_latencies.ts";

export interface LearntFigures {
  readonly answers: AnswerMeans;
  readonly latencies: Latencies;
}

/** Of these providers' models, kept in the store. Once for an engine. */
export function learntFigures(store: LearntStore, providers: readonly ProviderSettings[]): LearntFigures {
  const figures = { answers: new AnswerMeans(), latencies: new Latencies() };
  keepByModel(store, providers, "answers", keptAnswers(figures.answers));
  keepByModel(store, providers, "latencies", keptLatencies(figures.latencies));
  return figures;
}
