/**
 * The task of a call as OpenAI's response object.
 *
 *   queued -> in_progress -> completed | incomplete (its limit, a filter) | failed | cancelled
 *
 * Source: https://platform.openai.com/docs/api-reference/responses/object
 */
import { PerigeeError } from "../../errors.ts";
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import { isObject } from "../../work/json.ts";
import type { AnswerMembers } from "../../work/outcome.ts";
import type { TaskObject } from "../../work/task.ts";

const ID = /^resp_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/;

/** Kept with the task of a response, which nothing else makes one. */
export interface ResponseNote {
  readonly isBackground: boolean;
  /** As the caller named it. */
  readonly model: string;
}

/** The note as a text. */
export function noteOf(note: ResponseNote): string {
  return JSON.stringify({ response: note });
}

/** Undefined for a task that is not a response. */
export function readNote({ note }: Pick<TaskView, "note">): ResponseNote | undefined {
  const value: unknown = note === undefined ? undefined : JSON.parse(note); // written by this service
  const found = isObject(value) ? value["response"] : undefined;
  return isObject(found) ? (found as unknown as ResponseNote) : undefined; // as `noteOf` wrote it
}

/** The task's id; throws `not_found` for what is not the id of a response. */
export function fromResponseId(given: string): string {
  const parts = ID.exec(given);
  if (parts === null)
    throw new PerigeeError("not_found", `no response ${JSON.stringify(given.slice(0, 64))}`);
  return parts.slice(1).join("-");
}

/** The id of the response that a task is. */
export function responseIdOf({ id }: Pick<TaskView, "id">): string {
  return `resp_${id.replaceAll("-", "")}`;
}

/** The object; `model` is that of the call until one has answered. */
export function responseOf(task: TaskView, object: TaskObject, note: ResponseNote): object {
  const status = statusOf(object, task);
  const reason = object.finish_reason === "content_filter" ? "content_filter" : "max_output_tokens";
  const failed = { code: "server_error", message: object.error?.message ?? "" };
  return {
    id: responseIdOf(task),
    object: "response",
    created_at: Math.floor(task.createdWallMs / 1_000),
    status,
    background: note.isBackground,
    error: status === "failed" ? { ...failed, code: object.error?.code ?? failed.code } : null,
    incomplete_details: status === "incomplete" ? { reason } : null,
    model: object.model ?? note.model,
    output: object.status === "completed" ? outputOf(object, task.id) : [],
    usage: object.status === "completed" ? usageOf(object) : null,
    metadata: object.metadata ?? {},
    service_tier: object.cost?.tier ?? undefined,
    ...{ instructions: null, tools: [], tool_choice: "auto", parallel_tool_calls: true },
    ...{ temperature: null, top_p: null, previous_response_id: null },
  };
}

function statusOf({ status, phase, finish_reason }: TaskObject, { isCancelled }: TaskView): string {
  if (status === "submitted")
    return isCancelled ? "cancelled" : phase === "queued" ? "queued" : "in_progress";
  if (status === "cancelled") return "cancelled";
  if (status !== "completed") return "failed";
  return finish_reason === "length" || finish_reason === "content_filter" ? "incomplete" : "completed";
}

type Answered = Extract<TaskObject, { readonly status: "completed" }>;

/** Thoughts, the message and function calls, in that order. */
function outputOf({ output, reasoning, ...facts }: Answered, taskId: string): readonly object[] {
  const id = taskId.replaceAll("-", "");
  const status = "completed";
  const summary = [{ type: "summary_text", text: reasoning }];
  const thoughts = reasoning === undefined ? [] : [{ type: "reasoning", id: `rs_${id}`, summary }];
  const content = contentOf(output.text ?? "", facts);
  const message = { type: "message", id: `msg_${id}`, role: "assistant", status, content };
  const calls = (facts.tool_calls ?? []).flatMap((call, index) => {
    const { id: callId, function: called } = isObject(call) ? call : {};
    const { name, arguments: given } = isObject(called) ? called : {};
    return [
      { type: "function_call", id: `fc_${id}${index}`, call_id: callId, name, arguments: given, status },
    ];
  });
  return [...thoughts, ...(content.length === 0 ? [] : [message]), ...calls];
}

function contentOf(text: string, { refusal, annotations = [], logprobs }: AnswerMembers): readonly object[] {
  const parts = refusal === undefined ? [] : [{ type: "refusal", refusal }];
  if (text === "") return parts;
  return [
    { type: "output_text", text, annotations, logprobs: Array.isArray(logprobs) ? logprobs : [] },
    ...parts,
  ];
}

function usageOf({ usage }: Answered): object {
  const { input_tokens, output_tokens = 0, cached_tokens = 0, reasoning_tokens = 0 } = usage;
  return {
    input_tokens,
    input_tokens_details: { cached_tokens },
    output_tokens,
    output_tokens_details: { reasoning_tokens },
    total_tokens: input_tokens + output_tokens,
  };
}
