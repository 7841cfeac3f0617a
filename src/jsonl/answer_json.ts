/**
 * The JSON in an answer, read by the rules of lines (`record.ts`): at most 64 levels, no name twice, numbers with their own digits.
 *
 *   {"a": 1}                           the whole answer, white space around it aside
 *   Here it is: ```json {"a": 1} ```   else the text of its only fenced block
 *
 * Nothing else is tried: what is guessed out of a text is not what the model answered.
 */

import { afterString } from "./numbers.ts";
import { DEPTH_MAX } from "./record.ts";
import { countMembers, repeatedMember, scanStructure } from "./structure.ts";

/** What an answer holds, or why it is not JSON. */
export type AnswerJson =
  | {
      readonly ok: true;
      /** Numbers as doubles. */
      readonly value: unknown;
      /** The same as JSON on one line, with all digits. */
      readonly json: string;
    }
  | { readonly ok: false; readonly message: string };

const FENCE = "```";
const LONE_SURROGATES = /\p{Surrogate}/gu;
const WHITE_SPACE: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d]);

/** Never throws, for any text. */
export function readAnswerJson(text: string): AnswerJson {
  const whole = text.replace(/^\uFEFF/, "").trim();
  const direct = readJson(whole);
  if (direct.ok) return direct;
  const block = fencedBlock(whole);
  return block === undefined ? direct : readJson(block);
}

/** The text in the only fenced block; undefined without a block, or with several. */
function fencedBlock(text: string): string | undefined {
  const start = text.indexOf(FENCE);
  const end = text.indexOf(FENCE, start + FENCE.length);
  if (start < 0 || end < 0 || text.includes(FENCE, end + FENCE.length)) return undefined;
  return text
    .slice(start + FENCE.length, end)
    .replace(/^[\w+-]*(?=\s)/, "")
    .trim();
}

function readJson(text: string): AnswerJson {
  if (text === "") return { ok: false, message: "the answer is empty, expected JSON" };
  const structure = scanStructure(text, DEPTH_MAX);
  if (structure.isTooDeep)
    return { ok: false, message: `the answer is nested deeper than ${DEPTH_MAX} levels` };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { ok: false, message: `the answer is not JSON${placeOf(error)}` };
  }
  if (typeof value === "object" && value !== null && countMembers(value) < structure.memberCount) {
    const name = repeatedMember(text)?.name;
    return { ok: false, message: `the member ${JSON.stringify(name ?? "")} occurs twice in one object` };
  }
  return { ok: true, value, json: onOneLine(text) };
}

/** Without the characters that V8 quotes. */
function placeOf(error: unknown): string {
  const at = error instanceof Error ? /position (\d+)/.exec(error.message)?.[1] : undefined;
  return at === undefined ? "" : ` (at character ${at})`;
}

/** Valid JSON without white space between its tokens; half surrogate pairs become U+FFFD. */
function onOneLine(json: string): string {
  const pieces: string[] = [];
  let copied = 0;
  let at = 0;
  while (at < json.length) {
    const code = json.charCodeAt(at);
    if (code === 0x22) {
      at = afterString(json, at + 1);
    } else if (WHITE_SPACE.has(code)) {
      if (at > copied) pieces.push(json.slice(copied, at));
      at += 1;
      copied = at;
    } else at += 1;
  }
  const compact = copied === 0 ? json : pieces.join("") + json.slice(copied);
  return compact.replace(LONE_SURROGATES, "\ufffd");
}
