/**
 * What a well-formed answer comes to by how it ended, the same for all protocols; which of their reasons means what is
 * each codec's. What was generated is kept and says how it ended; an answer that holds nothing to keep is a failure.
 */
import type { AnswerMembers, FinishReason, Usage } from "../work/outcome.ts";
import { success } from "./exchange.ts";
import type { Decoded } from "./provider.ts";
import { itemFailure } from "./refusals.ts";

/** An answer as a codec has read it. */
export interface ReadAnswer {
  /** The provider's name. */
  readonly name: string;
  readonly text: string;
  /** Undefined when it has none. */
  readonly members: AnswerMembers | undefined;
  readonly usage: Usage | undefined;
  /** The tier that the provider says it served. */
  readonly tier: string | undefined;
}

/** It ended as usual. */
export function ended(answer: ReadAnswer): Decoded {
  const { members } = answer;
  if (members?.tool_calls !== undefined) return kept(answer, "tool_calls");
  if (members?.refusal !== undefined) return kept(answer, "refusal");
  if (answer.text !== "") return kept(answer, "stop");
  return itemFailure("ambiguous", "empty_output", `${answer.name} answered without text`, answer.usage);
}

/** The token limit was reached. */
export function cutOff(answer: ReadAnswer): Decoded {
  if (holdsAnswer(answer)) return kept(answer, "length");
  const message = `${answer.name}: the token limit left no room for text`;
  return itemFailure("permanent", "empty_output", message, answer.usage);
}

/** A filter of the provider stopped the answer. */
export function filtered(answer: ReadAnswer): Decoded {
  if (holdsAnswer(answer)) return kept(answer, "content_filter");
  return itemFailure("permanent", "filtered", `${answer.name} filtered the answer`, answer.usage);
}

/** The model said that it does not answer this. */
export function declined(answer: ReadAnswer): Decoded {
  if (holdsAnswer(answer)) return kept(answer, "refusal");
  return itemFailure("permanent", "filtered", `${answer.name}: the model refused`, answer.usage);
}

/** The provider ended a turn that the model had not ended. */
export function paused(answer: ReadAnswer): Decoded {
  if (holdsAnswer(answer)) return kept(answer, "pause");
  const message = `${answer.name} paused before the model answered`;
  return itemFailure("permanent", "unsupported_request", message, answer.usage);
}

/** The model called a tool in a way that nobody can read. */
export function brokenCall({ name, usage }: ReadAnswer): Decoded {
  const message = `${name} answered with a tool call that cannot be read`;
  return itemFailure("permanent", "unsupported_request", message, usage);
}

/** The provider stopped for a reason of its own. */
export function brokenOff({ name, usage }: ReadAnswer): Decoded {
  return itemFailure("ambiguous", "provider_error", `${name} broke off the answer`, usage);
}

function holdsAnswer({ text, members }: ReadAnswer): boolean {
  return text !== "" || members?.tool_calls !== undefined || members?.refusal !== undefined;
}

function kept({ text, members, usage, tier }: ReadAnswer, finish: "stop" | FinishReason): Decoded {
  return success(text, finish, usage, tier, members);
}
