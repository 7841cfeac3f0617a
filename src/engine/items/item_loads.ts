/**
 * Tokens that requests are expected to take: the input as counted times what providers count for it, the output as answers
 * of the model were, learnt from each answer.
 */
import type { AttemptResult } from "../../dispatch/attempt.ts";
import type { AnswerMeans } from "../../queue/answer_means.ts";
import { InputRatios, type OutputLengths } from "../../queue/output_lengths.ts";
import type { Shard } from "../../shard/shard.ts";
import type { TokenLoad } from "../../work/limits.ts";
import { type EndpointKind, hasNoOutput } from "../../work/request.ts";
import type { AnswerFits } from "../learnt/answer_fits.ts";
import type { ItemCall } from "./item_call.ts";

/** What is learnt of answers. */
interface LearntAnswers {
  readonly answers: AnswerMeans;
  readonly lengths: OutputLengths;
  readonly fits: AnswerFits;
}

/** One for an engine. */
export class ItemLoads {
  readonly #inputRatios = new InputRatios();
  readonly #learnt: LearntAnswers;

  constructor(learnt: LearntAnswers) {
    this.#learnt = learnt;
  }

  /** To reserve for `count` items of a shard that share a request. */
  reserved({ model, group, inputTokens, maxOutputTokens }: Shard, index: number, count = 1): TokenLoad {
    let counted = inputTokens[index] ?? 0;
    for (let next = index + 1; next < index + count; next += 1) counted += inputTokens[next] ?? 0;
    const ratio = this.#inputRatios.ratio(model, group.isEstimated);
    return {
      inputTokens: Math.ceil(counted * ratio),
      outputTokens: hasNoOutput(group.endpoint)
        ? 0
        : this.#learnt.lengths.reserve(model, maxOutputTokens[index] ?? 0),
    };
  }

  /** Output tokens that the items of a shard are expected to take together. */
  outputTokens({ model, group, count, maxOutputTokensTotal }: Shard): number {
    return hasNoOutput(group.endpoint)
      ? 0
      : count * this.outputTokensOf(model, Math.ceil(maxOutputTokensTotal / count));
  }

  /** Output tokens that one item is expected to take; `maxOutputTokens` is its own limit, 0 without one; `kind` undefined: a chat. */
  outputTokensOf(model: string, maxOutputTokens: number, kind?: EndpointKind): number {
    return hasNoOutput(kind) ? 0 : this.#learnt.lengths.expect(model, maxOutputTokens);
  }

  /** Output tokens of a mean answer; 0 before any is known. */
  meanOutputTokensOf(model: string): number {
    return this.#learnt.lengths.mean(model) ?? 0;
  }

  /** A call was answered. Limits count what it took beyond what was reserved, in later processes, too. */
  answered(call: ItemCall, result: AttemptResult): void {
    this.#checked(call, result);
    const { usage, latencyMs } = result;
    if (usage === undefined || usage.isEstimated) return;
    const moreInput = Math.max(0, usage.inputTokens - call.load.inputTokens);
    const moreOutput = Math.max(0, usage.outputTokens - call.load.outputTokens);
    if (moreInput + moreOutput > 0) call.owner.records.sentMore(call.lane.key, moreInput, moreOutput);
    const { count } = call;
    this.#learnt.lengths.observe(call.model, usage.outputTokens);
    this.#inputRatios.observe(call.model, call.inputTokens, usage.inputTokens);
    this.#learnt.answers.observe(call.model, call.prefixHash, {
      countedTokens: call.inputTokens / count, // means are of items
      inputTokens: usage.inputTokens / count,
      cachedTokens: usage.cachedTokens,
      cacheWriteTokens: usage.cacheWriteTokens,
      outputTokens: usage.outputTokens,
      latencyMs,
    });
  }
  /** Of an item whose answers must fit, whether this one or a further one does. */
  #checked({ model, answersMax, unusableAnswers, failed, count }: ItemCall, result: AttemptResult): void {
    if (answersMax === undefined || count > 1) return;
    const before = failed?.unusableAnswers ?? unusableAnswers;
    const isAgain = result.class === "unfit" && result.isFinal !== true && before + 1 < answersMax;
    this.checked(model, { isFirst: before === 0, isAgain });
  }

  /** An answer was checked: the first of an item or not, and asked for again or not. */
  checked(model: string, answer: { readonly isFirst: boolean; readonly isAgain: boolean }): void {
    this.#learnt.fits.checked(model, answer);
  }
}
