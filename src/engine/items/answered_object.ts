/**
 * The object of a line that has ended, made from the line and what the journal says of it.
 */
import type { OutputLine } from "../../work/item.ts";
import type { Failure } from "../../work/outcome.ts";
import type { TaskObject } from "../../work/task.ts";
import type { IndexedAnswer } from "../journal/answer_index.ts";

/** Of a line that has neither an output nor an error, which no version wrote. */
const WITHOUT_END: Failure = {
  code: "output_damaged",
  message: "the line has neither an output nor an error",
  retryable: true,
  attempts: 0,
  ambiguous_attempts: 0,
};

/** What is known of it without its line. */
export interface ObjectHead {
  readonly objectId: string;
  /** Counted when it was accepted. */
  readonly inputTokens: number;
  readonly priceFactor: number;
}

/** `line` has the error of a damaged answer, in whose place the journal says completed. */
export function answeredObject(
  { objectId, inputTokens, priceFactor }: ObjectHead,
  answer: Pick<IndexedAnswer, "status" | "inputTokens" | "outputTokens">,
  line: OutputLine,
  shownFailure: (failure: Failure) => Failure = (failure) => failure,
): TaskObject {
  const { key, line: _, output, error: failure, usage: used, body: _body, ...facts } = line;
  const usage = {
    ...used,
    input_tokens: used?.input_tokens || answer.inputTokens || inputTokens,
    price_factor: priceFactor,
  };
  if (answer.status === "completed" && output !== null) {
    const all = { ...usage, output_tokens: used?.output_tokens ?? answer.outputTokens };
    return { object_id: objectId, status: "completed", usage: all, output, error: null, ...facts };
  }
  const status = answer.status === undefined || answer.status === "completed" ? "failed" : answer.status;
  const error = shownFailure(failure ?? WITHOUT_END);
  return { object_id: objectId, status, usage, error, ...facts };
}
