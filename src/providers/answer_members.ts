/**
 * What answers hold besides their text, read from each protocol into one form. Members that are absent, empty or of
 * another shape than documented are left out; nothing here throws.
 */

import { jsonOf } from "../work/json.ts";
import type { AnswerMembers } from "../work/outcome.ts";
import type { JsonValue } from "../work/request.ts";
import { arrayOf, objectOf, stringOf, type Unchecked } from "./json.ts";

type Members = { -readonly [name in keyof AnswerMembers]: AnswerMembers[name] };

/** Of a choice of a chat completion and its message; undefined without any. */
export function openaiMembers(
  choice: Unchecked | undefined,
  message: Unchecked | undefined,
): AnswerMembers | undefined {
  const members: Members = {};
  if (message !== undefined) {
    const calls = callsOf(message);
    if (calls.length > 0) members.tool_calls = calls;
    const refusal = stringOf(message["refusal"]);
    if (refusal !== undefined && refusal !== "") members.refusal = refusal;
    const reasoning = thoughtsOf(message);
    if (reasoning !== "") members.reasoning = reasoning;
    const annotations = arrayOf(message["annotations"]);
    if (annotations !== undefined && annotations.length > 0) members.annotations = annotations as JsonValue[];
  }
  const logprobs = objectOf(choice?.["logprobs"]);
  if (logprobs !== undefined) members.logprobs = logprobs as JsonValue; // parsed JSON has no other values
  return orNone(members);
}

/** Of the blocks of an Anthropic message. */
export function anthropicMembers(blocks: readonly unknown[]): AnswerMembers | undefined {
  const calls: JsonValue[] = [];
  let reasoning = "";
  let thoughts: JsonValue[] = [];
  for (const value of blocks) {
    const block = objectOf(value);
    const type = block?.["type"];
    if (type === "thinking" || type === "redacted_thinking") {
      reasoning += stringOf(block?.["thinking"]) ?? "";
      thoughts.push(block as JsonValue); // it was read from JSON
    } else if (type === "tool_use") {
      const back = thoughts.length === 0 ? undefined : { anthropic: { thinking_blocks: thoughts } };
      calls.push(call(block?.["id"], block?.["name"], block?.["input"], back));
      thoughts = [];
    }
  }
  return orNone({
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(reasoning === "" ? {} : { reasoning }),
  });
}

/** Of a candidate of Gemini. */
export function geminiMembers(candidate: Unchecked): AnswerMembers | undefined {
  const calls: JsonValue[] = [];
  let reasoning = "";
  for (const value of arrayOf(objectOf(candidate["content"])?.["parts"]) ?? []) {
    const part = objectOf(value);
    if (part?.["thought"] === true) reasoning += stringOf(part["text"]) ?? "";
    const called = objectOf(part?.["functionCall"]);
    if (called !== undefined) {
      const signature = stringOf(part?.["thoughtSignature"]);
      const back = signature === undefined ? undefined : { google: { thought_signature: signature } };
      // It may leave out the id, by which a result says what it is of.
      const id = stringOf(called["id"]) ?? `call_${calls.length + 1}`;
      calls.push(call(id, called["name"], called["args"], back));
    }
  }
  const logprobs = objectOf(candidate["logprobsResult"]);
  return orNone({
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(reasoning === "" ? {} : { reasoning }),
    ...(logprobs === undefined ? {} : { logprobs: logprobs as JsonValue }),
  });
}

/** `tool_calls`, or the one call of the interface before it. */
function callsOf(message: Unchecked): readonly JsonValue[] {
  const calls = arrayOf(message["tool_calls"]);
  if (calls !== undefined && calls.length > 0) return calls as JsonValue[];
  const called = objectOf(message["function_call"]);
  return called === undefined ? [] : [{ type: "function", function: called as JsonValue }];
}

/** DeepSeek's and vLLM's name, OpenRouter's and Groq's name, and Mistral's chunks. */
function thoughtsOf(message: Unchecked): string {
  const text = stringOf(message["reasoning_content"]) ?? stringOf(message["reasoning"]);
  if (text !== undefined && text !== "") return text;
  let thoughts = "";
  for (const value of arrayOf(message["content"]) ?? []) {
    const chunk = objectOf(value);
    if (chunk?.["type"] !== "thinking") continue;
    const inner = chunk["thinking"];
    thoughts +=
      stringOf(inner) ??
      (arrayOf(inner) ?? []).map((one) => stringOf(objectOf(one)?.["text"]) ?? "").join("");
  }
  return thoughts;
}

/**
 * A call in OpenAI's form, whose arguments are JSON as text. `back` is what the provider demands back with it, under the name
 * that Google's own servers of OpenAI's protocol have for it (https://ai.google.dev/gemini-api/docs/thought-signatures).
 */
function call(id: unknown, name: unknown, input: unknown, back: JsonValue | undefined): JsonValue {
  const called = { name: stringOf(name) ?? "", arguments: jsonOf(input ?? {}) ?? "" };
  const known = stringOf(id);
  return {
    ...(known === undefined ? {} : { id: known }),
    type: "function",
    function: called,
    ...(back === undefined ? {} : { extra_content: back }),
  };
}

function orNone(members: AnswerMembers): AnswerMembers | undefined {
  for (const _ in members) return members;
  return undefined;
}
