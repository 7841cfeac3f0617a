/**
 * What answers take on the mean, learnt by model and system prompt: the tokens that providers count, and how long they take.
 * What quotes and forecasts expect of items that are not answered yet.
 *
 *   output(x) = mean y + slope (x - mean x)        y: output tokens, x: input tokens as we count them
 *   slope     = 0, or the regression of y on x where at least 20 answers show that outputs grow with inputs (r^2 >= 0.1)
 *   spread    = variance of y around that line
 *   error     of the sum of m items: m^2 x spread x (1/n + (mean x of the items - mean x)^2 / Sxx + 1/m)
 *
 * This is the regression estimator of survey sampling (Cochran 1977, "Sampling Techniques", section 7.3). A prompt of which
 * fewer than 3 answers are known is taken for one of its model: then n counts the prompts seen, because answers to one
 * prompt are alike.
 *
 * Limits: sums of 14 numbers for each model and for its 64 system prompts answered last, which are known by a hash; the
 * 1,000 models last added are kept. Sums are halved at 2,000 answers, so the last few thousand decide. Hot path: 0.3 us an
 * answer.
 */

const MODELS_MAX = 1_000;
const PROMPTS_MAX = 64;
const HALVE_AT = 2_000;
const PROMPT_ANSWERS_MIN = 3;
const MODEL_ANSWERS_MIN = 5;
const SLOPE_ANSWERS_MIN = 20;
const SLOPE_SHARE_MIN = 0.1;

/** The sums of a group of answers, by their place. */
const COUNT = 0;
const X = 1;
const XX = 2;
const Y = 3;
const YY = 4;
const XY = 5;
const INPUT = 6;
const CACHED = 7;
const WRITTEN = 8;
const MS = 9;
/** Of the logarithms of latencies, and of their squares. */
const LN = 10;
const LN_SQUARES = 11;
const INPUT_SQUARES = 12;
const X_INPUT = 13;
const SUMS = 14;

/** One answer with its usage. */
export interface MeasuredAnswer {
  /** Input tokens as they are counted before it is sent. */
  readonly countedTokens: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
  readonly latencyMs: number;
}

/** What is expected of items that are alike. */
export interface AnswerEstimate {
  readonly basis: "prompt" | "model";
  /** Answers that say so. */
  readonly answers: number;
  /** What counts as independent in the error of the mean. */
  readonly independent: number;
  readonly meanInput: number;
  readonly meanOutput: number;
  readonly slope: number;
  /** Sum of squares of the inputs around their mean. */
  readonly inputSpread: number;
  /** Variance of one output around what is expected of it. */
  readonly variance: number;
  /** Input tokens that providers count, divided by perigee's count. */
  readonly inputRatio: number;
  /** Variance of one input around what is expected of it. */
  readonly inputVariance: number;
  /** Shares of the input that is read from and written to a cache. */
  readonly cachedShare: number;
  readonly writtenShare: number;
  readonly meanMs: number;
  /** Of the natural logarithm of latencies in milliseconds. */
  readonly meanLn: number;
  readonly varianceLn: number;
}

/** As it is kept for later processes. */
export interface AnswerSums {
  readonly all: readonly number[];
  /** System prompts that were ever seen, at least those kept. */
  readonly promptsSeen: number;
  /** By the hash of the system prompt, the one answered last at the end. */
  readonly prompts: readonly (readonly [number, readonly number[]])[];
}

interface ModelSums {
  readonly all: Float64Array;
  readonly prompts: Map<number, Float64Array>;
  promptsSeen: number;
  /** The prompt of the last answer. */
  last: number | undefined;
  isChanged: boolean;
}

/** One for an engine. */
export class AnswerMeans {
  readonly #models = new Map<string, ModelSums>();
  /** What the current answer adds to each sum. */
  readonly #one = new Float64Array(SUMS);

  /** An answer of a model to an item with this system prompt, by its hash; 0 without one. */
  observe(model: string, prompt: number, answer: MeasuredAnswer): void {
    const sums = this.#of(model);
    setTo(this.#one, answer);
    add(sums.all, this.#one);
    add(promptOf(sums, prompt), this.#one);
    sums.isChanged = true;
  }

  /** Undefined before 5 answers of the model. */
  of(model: string, prompt: number): AnswerEstimate | undefined {
    const sums = this.#models.get(model);
    if (sums === undefined) return undefined;
    const own = sums.prompts.get(prompt);
    if (own !== undefined && (own[COUNT] ?? 0) >= PROMPT_ANSWERS_MIN) return estimateOf(own, "prompt");
    if ((sums.all[COUNT] ?? 0) < MODEL_ANSWERS_MIN) return undefined;
    return estimateOf(sums.all, "model", sums.promptsSeen);
  }

  /** The models that have changed since the last call, with what is known of each. */
  *changes(): Generator<readonly [string, AnswerSums]> {
    for (const [model, sums] of this.#models) {
      if (!sums.isChanged) continue;
      sums.isChanged = false;
      const prompts = [...sums.prompts].map(([prompt, own]) => [prompt, [...own]] as const);
      yield [model, { all: [...sums.all], promptsSeen: sums.promptsSeen, prompts }];
    }
  }

  /** Begins with what an earlier process knew of a model. Sums that cannot be are ignored. */
  restore(model: string, { all, promptsSeen, prompts }: AnswerSums): void {
    if (!isPossible(all)) return;
    const sums = this.#of(model);
    sums.all.set(all);
    for (const [prompt, own] of prompts.slice(-PROMPTS_MAX))
      if (isPossible(own)) sums.prompts.set(prompt, Float64Array.from(own));
    sums.promptsSeen = Math.max(promptsSeen, sums.prompts.size);
  }

  #of(model: string): ModelSums {
    const known = this.#models.get(model);
    if (known !== undefined) return known;
    if (this.#models.size >= MODELS_MAX) {
      const oldest = this.#models.keys().next();
      if (oldest.done !== true) this.#models.delete(oldest.value);
    }
    const all = new Float64Array(SUMS);
    const made = { all, prompts: new Map(), promptsSeen: 0, last: undefined, isChanged: false };
    this.#models.set(model, made);
    return made;
  }
}

/** Output tokens expected of one item, within its own limit (0 without one). */
export function expectedOutput(estimate: AnswerEstimate, countedTokens: number, outputLimit: number): number {
  const { meanOutput, slope, meanInput } = estimate;
  const tokens = Math.max(0, meanOutput + slope * (countedTokens - meanInput));
  return outputLimit > 0 ? Math.min(outputLimit, tokens) : tokens;
}

/** Items that are expected to be answered alike. */
export interface AlikeItems {
  readonly items: number;
  /** The sum of theirs. */
  readonly countedTokens: number;
  /** What counts as independent among them: their prompts, where no answer to these is known, or else all. */
  readonly independent: number;
}

/** The variance of the output tokens of items together. */
export function outputVariance(
  estimate: AnswerEstimate,
  { items, countedTokens, independent }: AlikeItems,
): number {
  const { variance, slope, inputSpread, meanInput } = estimate;
  const away = slope > 0 ? (countedTokens / items - meanInput) ** 2 / inputSpread : 0;
  return items ** 2 * variance * (1 / estimate.independent + away + 1 / independent);
}

/** The variance of the input tokens of items together, as their provider counts them. */
export function inputVariance(
  { inputVariance, independent }: AnswerEstimate,
  { items, independent: own }: AlikeItems,
): number {
  return items ** 2 * inputVariance * (1 / independent + 1 / own);
}

/** Makes the prompt the one answered last. */
function promptOf(sums: ModelSums, prompt: number): Float64Array {
  const { prompts } = sums;
  const known = prompts.get(prompt);
  if (known !== undefined && sums.last === prompt) return known;
  sums.last = prompt;
  if (known === undefined) sums.promptsSeen += 1;
  if (known === undefined && prompts.size >= PROMPTS_MAX) {
    const oldest = prompts.keys().next();
    if (oldest.done !== true) prompts.delete(oldest.value);
  }
  const own = known ?? new Float64Array(SUMS);
  prompts.delete(prompt);
  prompts.set(prompt, own);
  return own;
}

function setTo(one: Float64Array, answer: MeasuredAnswer): void {
  const { countedTokens: x, inputTokens, outputTokens: y, latencyMs } = answer;
  const ln = Math.log(Math.max(1, latencyMs));
  one[COUNT] = 1;
  one[X] = x;
  one[XX] = x * x;
  one[Y] = y;
  one[YY] = y * y;
  one[XY] = x * y;
  one[INPUT] = inputTokens;
  one[CACHED] = answer.cachedTokens;
  one[WRITTEN] = answer.cacheWriteTokens;
  one[MS] = latencyMs;
  one[LN] = ln;
  one[LN_SQUARES] = ln * ln;
  one[INPUT_SQUARES] = inputTokens * inputTokens;
  one[X_INPUT] = x * inputTokens;
}

function add(sums: Float64Array, one: Float64Array): void {
  const kept = (sums[COUNT] as number) >= HALVE_AT ? 0.5 : 1;
  // Both have `SUMS` numbers.
  for (let each = 0; each < SUMS; each += 1)
    sums[each] = (sums[each] as number) * kept + (one[each] as number);
}

function estimateOf(sums: Float64Array, basis: "prompt" | "model", promptsSeen?: number): AnswerEstimate {
  const of = (place: number): number => sums[place] ?? 0;
  const answers = of(COUNT);
  const meanInput = of(X) / answers;
  const meanOutput = of(Y) / answers;
  const inputSpread = Math.max(0, of(XX) - answers * meanInput ** 2);
  const outputSpread = Math.max(0, of(YY) - answers * meanOutput ** 2);
  const together = of(XY) - answers * meanInput * meanOutput;
  const shared = inputSpread > 0 && outputSpread > 0 ? together ** 2 / (inputSpread * outputSpread) : 0;
  const isSloped = answers >= SLOPE_ANSWERS_MIN && together > 0 && shared >= SLOPE_SHARE_MIN;
  const inputRatio = of(X) > 0 ? of(INPUT) / of(X) : 1;
  const inputsLeft = of(INPUT_SQUARES) - 2 * inputRatio * of(X_INPUT) + inputRatio ** 2 * of(XX);
  const left = isSloped ? outputSpread * (1 - shared) : outputSpread;
  return {
    basis,
    answers,
    independent: promptsSeen === undefined ? answers : Math.min(answers, promptsSeen),
    meanInput,
    meanOutput,
    slope: isSloped ? together / inputSpread : 0,
    inputSpread,
    variance: left / Math.max(1, answers - (isSloped ? 2 : 1)),
    inputRatio,
    inputVariance: Math.max(0, inputsLeft) / Math.max(1, answers - 1),
    cachedShare: share(of(CACHED), of(INPUT)),
    writtenShare: share(of(WRITTEN), of(INPUT)),
    meanMs: of(MS) / answers,
    meanLn: of(LN) / answers,
    varianceLn: Math.max(0, of(LN_SQUARES) / answers - (of(LN) / answers) ** 2),
  };
}

function share(part: number, whole: number): number {
  return whole > 0 ? Math.min(1, part / whole) : 0;
}

function isPossible(sums: readonly number[]): boolean {
  return sums.length === SUMS && sums.every((sum) => Number.isFinite(sum) && sum >= 0);
}
