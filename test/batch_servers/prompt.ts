/**
 * What a fake does with a prompt. The answer, its tokens and its faults follow from the text of the prompt and from nothing else.
 *
 * Words in a prompt that choose what happens:
 *   FAIL-<status>   answered with this error, in realtime and in a batch (where a wire has one: in the error file)
 *   BODY-<status>   the same in a batch, but among the good results, as a status beside `error: null`
 *   NULL-RESPONSE   a result without response and without error
 *   HOLD            an error that says that the account has no money left
 *   STALL           never finished in a batch
 *   AFTER-<ms>      finished so long after its batch began to run, instead of a drawn time
 *   MISSING, TWICE  left out of the results; twice in them
 *   INVALID         refused when the batch is validated, with its line
 *   TOKENS-<n>      as many output tokens
 *   TEXT-<n>        an answer of at least as many characters
 */
import { hashOf } from "./chance.ts";

export interface Fate {
  readonly failsWith: number | undefined;
  /** Whether the failure is among the good results. */
  readonly isInBody: boolean;
  readonly isNull: boolean;
  readonly isHold: boolean;
  readonly isStalled: boolean;
  readonly afterMs: number | undefined;
  readonly isMissing: boolean;
  readonly isTwice: boolean;
  readonly isInvalid: boolean;
  readonly tokens: number | undefined;
  readonly textLength: number;
}

const PLAIN: Fate = {
  failsWith: undefined,
  isInBody: false,
  isNull: false,
  isHold: false,
  isStalled: false,
  afterMs: undefined,
  isMissing: false,
  isTwice: false,
  isInvalid: false,
  tokens: undefined,
  textLength: 0,
};

const WORDS =
  /\b(FAIL-\d{3}|BODY-\d{3}|NULL-RESPONSE|HOLD|STALL|AFTER-\d+|MISSING|TWICE|INVALID|TOKENS-\d+|TEXT-\d+)\b/g;

/** All words begin with one; few prompts have one. */
const CAPITALS = /[A-Z]{4}/;

function fateOf(prompt: string): Fate {
  if (!CAPITALS.test(prompt)) return PLAIN;
  const words = prompt.match(WORDS);
  if (words === null) return PLAIN;
  const fate: { -readonly [Name in keyof Fate]: Fate[Name] } = { ...PLAIN };
  for (const word of words) {
    const number = Number(/\d+$/.exec(word)?.[0]);
    if (word.startsWith("FAIL-")) fate.failsWith = number;
    else if (word.startsWith("BODY-")) Object.assign(fate, { failsWith: number, isInBody: true });
    else if (word === "NULL-RESPONSE") fate.isNull = true;
    else if (word === "HOLD") fate.isHold = true;
    else if (word === "STALL") fate.isStalled = true;
    else if (word.startsWith("AFTER-")) fate.afterMs = number;
    else if (word === "MISSING") fate.isMissing = true;
    else if (word === "TWICE") fate.isTwice = true;
    else if (word === "INVALID") fate.isInvalid = true;
    else if (word.startsWith("TOKENS-")) fate.tokens = number;
    else fate.textLength = number;
  }
  return fate;
}

/** The one right answer to a prompt, at every provider and tier. */
export function answerTo(prompt: string): string {
  const text = `answer ${hashOf(prompt)} to ${prompt.slice(0, 40)}`;
  const { textLength } = fateOf(prompt);
  return textLength === 0 ? text : text.padEnd(textLength, " and so on");
}

/** What a fake understands of one request, whatever its wire. */
export interface Asked {
  readonly model: string;
  readonly prompt: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Whether its limit cut it. */
  readonly isCut: boolean;
  readonly fate: Fate;
}

/** `characters`: of all that the model reads. */
export function askedOf(
  model: string,
  prompt: string,
  characters: number,
  outputTokensMax: number | undefined,
): Asked {
  const fate = fateOf(prompt);
  const wanted = fate.tokens ?? 5 + (hashOf(prompt) % 23);
  const outputTokens = Math.min(wanted, outputTokensMax ?? wanted);
  const inputTokens = 8 + Math.ceil(characters / 4);
  return { model, prompt, inputTokens, outputTokens, isCut: outputTokens < wanted, fate };
}
