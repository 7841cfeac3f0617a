/**
 * What an engine learns of models, and begins with as earlier processes have left it.
 */
import type { ProviderSettings } from "../../providers/provider.ts";
import { AnswerMeans } from "../../queue/answer_means.ts";
import { Latencies } from "../../queue/latency.ts";
import { OutputLengths } from "../../queue/output_lengths.ts";
import type { LearntStore } from "../../store/learnt.ts";
import { AnswerFits } from "./answer_fits.ts";
import { keptAnswers } from "./kept_answers.ts";
import { keepByModel } from "./kept_by_model.ts";
import { keptLatencies } from "./kept_latencies.ts";
import { keptLengths } from "./kept_lengths.ts";

export interface LearntFigures {
  readonly answers: AnswerMeans;
  readonly latencies: Latencies;
  readonly lengths: OutputLengths;
  readonly fits: AnswerFits;
}

/** Of these providers' models, kept in the store. Once for an engine. */
export function learntFigures(store: LearntStore, providers: readonly ProviderSettings[]): LearntFigures {
  const figures = {
    answers: new AnswerMeans(),
    latencies: new Latencies(),
    lengths: new OutputLengths(),
    fits: new AnswerFits(),
  };
  keepByModel(store, providers, "answers", keptAnswers(figures.answers));
  keepByModel(store, providers, "latencies", keptLatencies(figures.latencies));
  keepByModel(store, providers, "lengths", keptLengths(figures.lengths));
  keepByModel(store, providers, "fits", figures.fits);
  return figures;
}
