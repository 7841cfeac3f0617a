/** What Anthropic's messages endpoint reads of a request, and the bodies that it answers with. Source: @anthropic-ai/sdk 1.11.0. */
import { type FakeReply, type JsonObject, jsonReply } from "./fake.ts";
import { turnsOf } from "./openai_answers.ts";
import { type Asked, answerTo, askedOf } from "./prompt.ts";
import { type Slot, slot, templateOf } from "./template.ts";

const TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  409: "conflict_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error",
  529: "overloaded_error",
};

/** The version from which on sampling is refused. */
const NO_SAMPLING_FROM = "2026-10-21";

export function typeOfStatus(status: number): string {
  return TYPES[status] ?? (status >= 500 ? "api_error" : "invalid_request_error");
}

/** A refusal; a code of Anthropic's own (`..._error`) is its type. */
export function refuseAnthropic(status: number, code: string, message: string): FakeReply {
  const type = code.endsWith("_error") && code !== "server_error" ? code : typeOfStatus(status);
  const details = code === "insufficient_quota" ? { error_code: "enforced_spend_limit_reached" } : undefined;
  return jsonReply(status, { type: "error", error: { type, message, details }, request_id: "req_refused" });
}

/** What is asked by a body, or why it is not a request. */
export function anthropicAsked(body: JsonObject, version: string): Asked | string {
  const { model, messages, max_tokens, system } = body;
  if (typeof model !== "string" || model === "") return "model: Field required";
  if (!Array.isArray(messages) || messages.length === 0) return "messages: Field required";
  if (typeof max_tokens !== "number" || max_tokens < 1) return "max_tokens: Field required";
  if (version >= NO_SAMPLING_FROM)
    for (const name of ["temperature", "top_p", "top_k"])
      if (body[name] !== undefined) return `${name}: Extra inputs are not permitted`;
  const { prompt, characters } = turnsOf(messages);
  const before = system === undefined ? 0 : turnsOf([{ content: system }]).characters;
  return askedOf(model, prompt, characters + before, max_tokens);
}

/** A message that answers. */
export function anthropicAnswered(asked: Asked, id: string, tier: "standard" | "batch"): object {
  const { model, prompt, inputTokens: input, outputTokens: output, isCut } = asked;
  return messageOf({ id, model, text: answerTo(prompt), isCut, input, output, tier });
}

/** The same as a line of a batch's results. */
export function anthropicLines(): (customId: string, asked: Asked, id: string) => string {
  const shape = (isCut: boolean): ReturnType<typeof templateOf> => {
    const parts = { id: slot(1), model: slot(2), text: slot(3), input: slot(4), output: slot(5) };
    const message = messageOf({ ...parts, isCut, tier: "batch" });
    return templateOf({ custom_id: slot(0), result: { type: "succeeded", message } });
  };
  const whole = shape(false);
  const cut = shape(true);
  return (customId, { model, prompt, inputTokens, outputTokens, isCut }, id) =>
    (isCut ? cut : whole)([customId, id, model, answerTo(prompt), inputTokens, outputTokens]);
}

function messageOf({
  id,
  model,
  text,
  isCut,
  input,
  output,
  tier,
}: {
  readonly id: string | Slot;
  readonly model: string | Slot;
  readonly text: string | Slot;
  readonly isCut: boolean;
  readonly input: number | Slot;
  readonly output: number | Slot;
  readonly tier: string;
}): object {
  return {
    id,
    type: "message",
    role: "assistant",
    model,
    content: [{ type: "text", text, citations: null }],
    stop_reason: isCut ? "max_tokens" : "end_turn",
    stop_sequence: null,
    usage: {
      input_tokens: input,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      output_tokens: output,
      service_tier: tier,
    },
  };
}
