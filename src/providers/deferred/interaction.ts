/**
 * An interaction of Gemini's Interactions API as a batch of one request, and its answer as one of generateContent, so that it is read
 * and kept like one of realtime. Source: the types of @google/genai 2.32 (`Interaction`, `InteractionStatus`, `Usage`).
 *
 *   queued, in_progress, unknown                        running
 *   completed                                           completed: the text
 *   incomplete                                          completed: the text, cut off at its limit
 *   requires_action, requires_continuation,             completed, without a whole answer: billed as its usage says, and sent again
 *   budget_exceeded
 *   failed                                              failed; billed if its usage says so
 *   cancelled                                           cancelled: whether it was billed is not documented, so it is in doubt
 */

import { faultOf } from "../batches/batch_failure.ts";
import type { BatchEnd, BatchRequest, BatchResult, RemoteBatch } from "../batches/batch_wire.ts";
import { idOf, wallMsOf } from "../batches/remote_batch.ts";
import { arrayOf, nameOf, objectOf, parseJson, stringOf, type Unchecked } from "../json.ts";

const ENDS: ReadonlyMap<string, BatchEnd> = new Map<string, BatchEnd>([
  ["completed", "completed"],
  ["incomplete", "completed"],
  ["requires_action", "completed"],
  ["requires_continuation", "completed"],
  ["budget_exceeded", "completed"],
  ["failed", "failed"],
  ["cancelled", "cancelled"],
]);

/** What the codec of generateContent reads as the reason for the end of an answer. */
const REASONS: Readonly<Record<string, string>> = {
  completed: "STOP",
  incomplete: "MAX_TOKENS",
  requires_continuation: "CONTINUATION",
};
const OTHER_REASON = "OTHER";

/** The interaction of an answer; undefined of anything else. `get`: the request whose answer shows it. */
export function interactionOf(
  value: Unchecked | undefined,
  get: (id: string) => BatchRequest,
): RemoteBatch | undefined {
  const id = idOf(value?.["id"]);
  const rawState = stringOf(value?.["status"]);
  if (value === undefined || id === undefined || rawState === undefined) return undefined;
  const end = ENDS.get(rawState);
  const hasResult = end === "completed" || (end === "failed" && isBilled(value));
  return {
    id,
    rawState,
    end,
    isCancelling: false,
    counts: {},
    tag: undefined,
    createdWallMs: wallMsOf(value["created"]),
    expiresWallMs: undefined,
    faults: end === "failed" ? [faultOf(errorIn(value))] : [],
    results: hasResult ? [{ request: get(id), format: "whole" }] : [],
    files: [],
  };
}

/** The answer of an interaction that has ended, as generateContent would have given it. It needs no id: it is the only one. */
export function interactionResult(bytes: Uint8Array): BatchResult {
  const value = objectOf(parseJson(bytes));
  const status = stringOf(value?.["status"]);
  if (value === undefined || status === undefined || !ENDS.has(status))
    return { is: "unreadable", message: "not an interaction that has ended" };
  const answer = status === "failed" ? refused(value) : answered(value, status);
  const tier = nameOf(value["service_tier"]);
  return {
    is: "answered",
    id: "",
    status: 200,
    headers: tier === undefined ? {} : { "x-gemini-service-tier": tier },
    value: answer,
    get body() {
      return Buffer.from(JSON.stringify(answer));
    },
  };
}

function answered(value: Unchecked, status: string): Unchecked {
  const finishReason = REASONS[status] ?? OTHER_REASON;
  const content = { role: "model", parts: [{ text: textOf(value["steps"]) }] };
  return {
    candidates: [{ content, finishReason, index: 0 }],
    usageMetadata: usageOf(value["usage"]),
    modelVersion: value["model"],
    responseId: value["id"],
  };
}

function refused(value: Unchecked): Unchecked {
  const message = stringOf(objectOf(errorIn(value))?.["message"]) ?? "the interaction failed";
  return { error: { code: 500, status: "INTERNAL", message }, usageMetadata: usageOf(value["usage"]) };
}

/** What it says of its failure: its own errors, else that of its last output. */
function errorIn(value: Unchecked): unknown {
  const [own] = arrayOf(value["errors"]) ?? [];
  const outputs = stepsAfterInput(value["steps"]).map(({ error }) => error ?? undefined);
  return own ?? outputs.findLast((error) => error !== undefined) ?? {};
}

/** The texts of what the model said after the last input, joined, as Google's SDK does; thoughts are steps of their own. */
function textOf(steps: unknown): string {
  let text = "";
  for (const step of stepsAfterInput(steps)) {
    if (step["type"] !== "model_output") continue;
    for (const part of arrayOf(step["content"]) ?? []) {
      const content = objectOf(part);
      if (content?.["type"] === "text") text += stringOf(content["text"]) ?? "";
    }
  }
  return text;
}

function stepsAfterInput(steps: unknown): Unchecked[] {
  const all = (arrayOf(steps) ?? []).map((step) => objectOf(step) ?? {});
  return all.slice(all.findLastIndex(({ type }) => type === "user_input") + 1);
}

/** Names of counts in generateContent, by those of interactions. */
const COUNTS: Readonly<Record<string, string>> = {
  total_input_tokens: "promptTokenCount",
  total_output_tokens: "candidatesTokenCount",
  total_thought_tokens: "thoughtsTokenCount",
  total_cached_tokens: "cachedContentTokenCount",
  total_tool_use_tokens: "toolUsePromptTokenCount",
  total_tokens: "totalTokenCount",
};

/** Undefined where it says nothing. */
function usageOf(value: unknown): Unchecked | undefined {
  const usage = objectOf(value);
  if (usage === undefined) return undefined;
  const known = Object.entries(COUNTS).filter(([name]) => usage[name] !== undefined);
  return Object.fromEntries(known.map(([name, own]) => [own, usage[name]]));
}

function isBilled({ usage }: Unchecked): boolean {
  return Object.values(usageOf(usage) ?? {}).some((count) => typeof count === "number" && count > 0);
}
