/**
 * Regular expressions of others, which must never hang the process.
 *
 *   when it is made    tried on texts of repeated characters; one that does not end soon is refused
 *   when it is used    a pattern that can backtrack much runs under a time limit, which costs about 1.6 ms, unless the text is short
 *
 * The first finds the usual mistakes, such as `(a+)+$`, before anything is sent; only the second is a proof.
 */
import { createContext, Script } from "node:vm";

/** A pattern, ready for use. */
export interface SafePattern {
  /** False also where the text took longer than 100 ms. */
  test(text: string): boolean;
}

/** Of all trial texts together, when a pattern is made. */
const TRIAL_MS = 250;
const TEXT_MS = 100;
/** Texts up to this length are matched at once by any pattern that passed its trial. */
const SHORT_CHARS = 16;
/** Texts up to this length are matched at once by patterns without repeated groups. */
const PLAIN_CHARS = 4_096;
/** With two loops beside each other the work grows with the square of the text. */
const PLAIN_LOOPS = 2;
/** Enough for 2^40 steps. */
const REPEATS = 40;
const TRIAL_CHARS = [..."aA0 -_./:,@\"'"];
/** Different characters of a pattern that are tried. */
const OWN_CHARS_MAX = 16;
/** No pattern but one for any text ends with it. */
const END = "\u0000";

/** Throws a SyntaxError for an invalid pattern, and a RangeError for one that hangs. */
export function safePattern(source: string, flags: string): SafePattern {
  const pattern = new RegExp(source, flags);
  const loops = source.match(/(?<!\\)[*+]|\{\d+,\}/g)?.length ?? 0;
  if (loops === 0) return { test: (text) => pattern.test(text) };
  const hasRepeatedGroup = /\)(?:[*+]|\{\d*,?\d*\})/.test(source);
  if (hasRepeatedGroup || loops > PLAIN_LOOPS) {
    const texts = trialTexts(source);
    if (withinMs(TRIAL_MS, () => texts, pattern) === undefined)
      throw new RangeError(
        `the pattern ${JSON.stringify(source)} takes too long on texts of ${REPEATS} characters`,
      );
  }
  const plainChars = hasRepeatedGroup || loops > PLAIN_LOOPS ? SHORT_CHARS : PLAIN_CHARS;
  return {
    test: (text) =>
      text.length <= plainChars ? pattern.test(text) : withinMs(TEXT_MS, () => [text], pattern) === true,
  };
}

/** Each character many times, by itself and after the text that the pattern begins with, and then what does not fit. */
function trialTexts(source: string): readonly string[] {
  const begin =
    /^\^?((?:[^\\^$.*+?()[\]{}|]|\\[^\w])*)(?![*+?{])/.exec(source)?.[1]?.replaceAll("\\", "") ?? "";
  const own = [...new Set(source.match(/[\p{L}\p{N}]|[-_#%&=;!~ ]/gu))].slice(0, OWN_CHARS_MAX);
  return [...new Set([...TRIAL_CHARS, ...own])].flatMap((char) => {
    const text = `${char.repeat(REPEATS)}${END}`;
    return begin === "" ? [text] : [text, `${begin}${text}`];
  });
}

const SCRIPT = new Script("texts.map((text) => pattern.test(text)).every(Boolean)");

/** Whether the pattern is in all texts; undefined when that took longer. */
function withinMs(timeoutMs: number, texts: () => readonly string[], pattern: RegExp): boolean | undefined {
  const context = createContext({ pattern, texts: texts() });
  try {
    return SCRIPT.runInContext(context, { timeout: timeoutMs }) === true;
  } catch (error) {
    // An error of the other context is not an instance of this one's Error.
    if ((error as { readonly code?: unknown }).code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return undefined;
    throw error;
  }
}
