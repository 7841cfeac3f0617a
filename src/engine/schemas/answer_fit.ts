/**
 * Whether an answer fits what was asked for, and what the next request tells the model if it does not.
 *
 *   answered -> fits                              success, with the answer as JSON on one line
 *            -> not JSON, or not of the schema    unfit: asked again with the answer and the fault as two more turns
 *            -> no answer (tool calls, refusal),  unfit, and final: asking again would change nothing
 *               an answer of echo, or a schema
 *               whose check does not end
 *
 * Answers that did not fit are kept while their items are open, so that an item may wait, change its lane or go with a batch before it is
 * asked again; not across processes, where it begins with its first request. Limit: 256 Ki characters each and 16 Mi together; an item
 * beyond that is asked again without them.
 */
import type { AttemptResult } from "../../dispatch/attempt.ts";
import { type AnswerCheck, answerCheck, UnendingCheck } from "../../json_schema.ts";
import { readAnswerJson } from "../../jsonl/answer_json.ts";
import { withAnswered } from "../../providers/further_turns.ts";
import type { Provider } from "../../providers/provider.ts";

/** What the answers of an owner's items must fit. */
export interface FitTerms {
  /** For items that say nothing themselves; undefined: they are not checked. */
  readonly check: AnswerCheck | undefined;
  /** What a program checks itself of the items of a list, by their lines; for those that have its JSON Schema. */
  readonly ownOf?: (line: number) => OwnCheck | undefined;
  /** Answers for an item at most, the first included; 1 to 3. */
  readonly answersMax: number;
  /** Answers of open lines that did not fit. */
  readonly kept: UnfitAnswers;
}

/** A schema that a program checks itself, and the JSON Schema that its items have. */
export interface OwnCheck extends AnswerCheck {
  readonly json: string;
}

const ANSWER_CHARS_MAX = 256 * 1024;
const KEPT_CHARS_MAX = 16 * 1024 * 1024;
/** Bytes of the two turns besides their texts. */
const FRAME_BYTES = 160;

/** The check for an item. `schema`: what it says itself, as JSON; empty text for nothing, `null` for no check. */
export function checkFor({ check, ownOf }: FitTerms, schema: string, line: number): AnswerCheck | undefined {
  if (schema === "") return check;
  if (schema === "null") return undefined;
  const own = ownOf?.(line);
  return own?.json === schema ? own : answerCheck(schema);
}

/** An attempt, after its answer was checked. */
export function fitted(
  result: AttemptResult,
  check: AnswerCheck,
  { settings: { protocol } }: Pick<Provider, "settings">,
): AttemptResult {
  if (result.class !== "success") return result;
  const { text = "", finish, members } = result;
  if (members?.tool_calls !== undefined && text === "")
    return { ...unfit(result, "the model called tools instead"), isFinal: true };
  if (finish === "refusal" || finish === "content_filter" || members?.refusal !== undefined)
    return { ...unfit(result, "the model declined to answer"), isFinal: true };
  const read = readAnswerJson(text);
  const checked = read.ok ? checkedWith(check, read.value) : { fault: read.message };
  if ("unending" in checked) return { ...unfit(result, checked.unending), isFinal: true };
  const { fault } = checked;
  if (fault === undefined) return read.ok ? { ...result, parsed: read.json } : result;
  if (protocol === "echo") return { ...unfit(result, `${fault}; echo has one answer`), isFinal: true };
  return unfit(result, finish === "length" ? `${fault}; the answer was cut at its token limit` : fault);
}

/** Whether an answer fits that was read before, as JSON; one whose check does not end does not. */
export function stillFits(check: AnswerCheck | undefined, parsed: string | undefined): boolean {
  if (check === undefined) return true;
  if (parsed === undefined) return false;
  const checked = checkedWith(check, JSON.parse(parsed));
  return "fault" in checked && checked.fault === undefined;
}

/** `unending`: the check itself does not end, whatever the answer. */
function checkedWith(
  check: AnswerCheck,
  value: unknown,
): { readonly fault: string | undefined } | { readonly unending: string } {
  try {
    return { fault: check.fault(value) };
  } catch (error) {
    if (error instanceof UnendingCheck) return { unending: error.message };
    throw error;
  }
}

function unfit(result: AttemptResult, fault: string): AttemptResult {
  return {
    ...result,
    class: "unfit",
    code: "schema_unmet",
    message: `the answer does not fit its schema: ${fault}`,
  };
}

/** An answer that did not fit, as it is shown to the model with the next request. */
export class UnfitAnswer {
  readonly text: string;
  readonly #reply: string;

  constructor({ text = "", message }: Pick<AttemptResult, "text" | "message">) {
    this.text = text;
    this.#reply = `${message}\nAnswer again with the complete corrected JSON, and nothing else.`;
  }

  /** What it adds to a request at most, in bytes; tokens are not more. */
  get bytesMost(): number {
    return 2 * jsonBytes(this.text) + jsonBytes(this.#reply) + FRAME_BYTES;
  }

  /** What it is expected to add, in tokens. */
  get tokens(): number {
    return Math.ceil((this.text.length + this.#reply.length) / 4);
  }

  /** The request with it. */
  body(plain: Uint8Array, provider: Provider): Uint8Array {
    if (this.text === "") return plain;
    return withAnswered(plain, provider, { answer: this.text, reply: this.#reply }, this.bytesMost);
  }
}

/** As JSON, which writes a control character in six. */
function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text));
}

/** Those of one owner, by line. */
export class UnfitAnswers {
  readonly #byLine = new Map<number, UnfitAnswer>();
  #chars = 0;

  get(line: number): UnfitAnswer | undefined {
    return this.#byLine.size === 0 ? undefined : this.#byLine.get(line);
  }

  /** The last one of a line. */
  keep(line: number, answer: UnfitAnswer): void {
    this.remove(line);
    const { length } = answer.text;
    if (length > ANSWER_CHARS_MAX || this.#chars + length > KEPT_CHARS_MAX) return;
    this.#byLine.set(line, answer);
    this.#chars += length;
  }

  remove(line: number): void {
    const before = this.get(line);
    if (before === undefined) return;
    this.#chars -= before.text.length;
    this.#byLine.delete(line);
  }
}
