/**
 * The result of a well-formed answer by how it ended, the same for all protocols; which of their reasons means what is
 * each codec's. What was generated is kept and says how it ended; an answer that holds nothing to keep is a failure.
 */
import type { FailureCode } from "../errors.ts";
import type { AnswerMembers, FinishReason, OtherCandidate, Usage } from "../work/outcome.ts";
import type { Decoded } from "./provider.ts";
import { itemFailure } from "./refusals.ts";

/** An answer as a codec has read it. */
export interface ReadAnswer {
  /** The provider's name. */
  readonly name: string;
  readonly text: string;
  /** What it holds besides its text, if anything. */
  readonly members?: AnswerMembers | undefined;
  readonly usage: Usage | undefined;
  /** The tier that the provider says it served. */
  readonly tier?: string | undefined;
  /** The model that the provider says answered. */
  readonly model?: string | undefined;
  /** The provider's id of the request. */
  readonly requestId?: string | undefined;
}

/** It ended as usual. */
export function ended(answer: ReadAnswer): Decoded {
  const { members } = answer;
  if (members?.tool_calls !== undefined) return success(answer, "tool_calls");
  if (members?.refusal !== undefined) return success(answer, "refusal");
  if (answer.text !== "") return success(answer, "stop");
  return without(answer, "ambiguous", "empty_output", `${answer.name} answered without text`);
}

/** The token limit was reached. */
export function cutOff(answer: ReadAnswer): Decoded {
  if (holdsAnswer(answer)) return success(answer, "length");
  const message = `${answer.name}: the token limit was reached before any text`;
  return without(answer, "permanent", "empty_output", message);
}

/** A filter of the provider stopped the answer. */
export function filtered(answer: ReadAnswer): Decoded {
  if (holdsAnswer(answer)) return success(answer, "content_filter");
  return without(answer, "permanent", "filtered", `${answer.name} filtered the answer`);
}

/** The model said that it does not answer this. */
export function declined(answer: ReadAnswer): Decoded {
  if (holdsAnswer(answer)) return success(answer, "refusal");
  return without(answer, "permanent", "filtered", `${answer.name}: the model refused`);
}

/** The provider ended a turn that the model had not ended. */
export function paused(answer: ReadAnswer): Decoded {
  if (holdsAnswer(answer)) return success(answer, "length");
  const message = `${answer.name} paused before the model answered`;
  return without(answer, "permanent", "unsupported_request", message);
}

/** The model called a tool in a way that nobody can read. */
export function brokenCall(answer: ReadAnswer): Decoded {
  const message = `${answer.name} answered with a tool call that cannot be read`;
  return without(answer, "permanent", "unsupported_request", message);
}

/** The provider stopped for a reason of its own. */
export function brokenOff(answer: ReadAnswer): Decoded {
  return without(answer, "ambiguous", "provider_error", `${answer.name} broke off the answer`);
}

/** No answer; what the model thought is kept. */
function without(
  { members, usage, tier }: ReadAnswer,
  kind: "ambiguous" | "permanent",
  code: FailureCode,
  message: string,
): Decoded {
  const failure = itemFailure(kind, code, message, usage);
  const { reasoning = "" } = members ?? {};
  return {
    ...failure,
    ...(reasoning === "" ? {} : { reasoning }),
    ...(tier === undefined ? {} : { servedTier: tier }),
  };
}

/**
 * The results of several answers to one request as one: the first that is an answer, with the others beside it; where none is, the
 * first result. `decoded` is not empty, and is in the provider's order.
 */
export function severalAnswers(decoded: readonly [Decoded, ...Decoded[]]): Decoded {
  const first = decoded.find((one) => one.class === "success");
  if (first?.class !== "success") return decoded[0];
  const others = decoded.filter((one) => one !== first).map(otherCandidate);
  return { ...first, members: { ...first.members, other_candidates: others } };
}

function otherCandidate(decoded: Decoded): OtherCandidate {
  if (decoded.class === "success")
    return { text: decoded.text, finish_reason: decoded.finish, ...decoded.members };
  const { code, reasoning } = decoded;
  const finish = code === "filtered" ? "content_filter" : decoded.class === "permanent" ? "length" : "stop";
  return { text: "", finish_reason: finish, ...(reasoning === undefined ? {} : { reasoning }) };
}

function holdsAnswer({ text, members }: ReadAnswer): boolean {
  return text !== "" || members?.tool_calls !== undefined || members?.refusal !== undefined;
}

/** The answer as a success. Hot: all have one shape, because V8 takes a microsecond to spread what is there. */
export function success(
  { text, members, usage, tier, model, requestId }: Omit<ReadAnswer, "name">,
  finish: FinishReason,
): Extract<Decoded, { readonly class: "success" }> {
  return { class: "success", text, finish, usage, model, requestId, servedTier: tier, members };
}
