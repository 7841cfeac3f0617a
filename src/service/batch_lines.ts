/**
 * Answers in the layout of OpenAI's batch output: a chat completion for each answer, an error for each other line.
 *
 *   {"id","custom_id","response":{"status_code":200,"request_id","body":{...}},"error":null}
 *   {"id","custom_id","response":null,"error":{"code","message","line"?}}
 *
 * Source: https://platform.openai.com/docs/api-reference/batch/request-output
 */
import type { AnsweredLine } from "../tasks/task_view.ts";
import type { FinishReason } from "../work/outcome.ts";

/** Bytes handed on at once. */
const CHUNK_CHARS = 64 * 1024;

/** Codes that OpenAI has for lines that were not answered in time, and not sent any more. */
const CODES: Readonly<Record<string, string>> = { expired: "batch_expired", cancelled: "batch_cancelled" };

/** The line of an answer; `line` has an output. `createdSeconds` is Unix time. */
export function answerLine(line: AnsweredLine, model: string | null, createdSeconds: number): string {
  const id = line.objectId.replaceAll("-", "");
  const { input_tokens, output_tokens } = line.usage;
  const { finish_reason, logprobs = null } = line.facts;
  const body = {
    id: `chatcmpl-${id}`,
    object: "chat.completion",
    created: createdSeconds,
    model: model ?? "",
    choices: [{ index: 0, message: messageOf(line), logprobs, finish_reason: reasonOf(finish_reason) }],
    usage: {
      prompt_tokens: input_tokens,
      completion_tokens: output_tokens,
      total_tokens: input_tokens + output_tokens,
    },
  };
  const response = { status_code: 200, request_id: `req_${id}`, body };
  return `${JSON.stringify({ id: `batch_req_${id}`, custom_id: line.key, response, error: null })}\n`;
}

function messageOf({ output, facts }: AnsweredLine): object {
  const { text = "" } = output ?? {};
  const { tool_calls, refusal = null, reasoning, annotations } = facts;
  const isEmpty = text === "" && (tool_calls !== undefined || refusal !== null);
  return {
    role: "assistant",
    content: isEmpty ? null : text,
    refusal,
    tool_calls, // JSON.stringify leaves out what is undefined
    annotations,
    reasoning_content: reasoning,
  };
}

/** OpenAI knows no others; a refusal ends there like any answer. */
function reasonOf(reason: FinishReason | undefined): string {
  return reason === "length" || reason === "tool_calls" || reason === "content_filter" ? reason : "stop";
}

/** The line of a request that has no answer. */
export function errorLine({ objectId, key, status, error }: AnsweredLine): string {
  const code = CODES[status] ?? error?.code ?? "internal_error";
  return `${JSON.stringify({
    id: `batch_req_${objectId.replaceAll("-", "")}`,
    custom_id: key,
    response: null,
    error: { code, message: error?.message ?? "", line: error?.line },
  })}\n`;
}

/** Lines as bytes, many at a time. */
export async function* linesAsBytes(lines: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  let text = "";
  for await (const line of lines) {
    text += line;
    if (text.length < CHUNK_CHARS) continue;
    yield Buffer.from(text);
    text = "";
  }
  if (text !== "") yield Buffer.from(text);
}
