/**
 * Answers in the layout of OpenAI's batch output: a line for each answer, an error for each other line.
 *
 *   {"id","custom_id","response":{"status_code":200,"request_id","body":{...}},"error":null}
 *   {"id","custom_id","response":null,"error":{"code","message","line"?}}
 *
 * The body is what the provider sent, if that has OpenAI's form. The answer of another protocol is translated into a chat completion,
 * or into a list of embeddings, and has only members that are known: `id`, `model`, `choices` or `data`, and `usage`.
 *
 * Source: https://platform.openai.com/docs/api-reference/batch/request-output
 */
import type { AnsweredLine } from "../../tasks/shapes/task_view.ts";
import type { ItemUsage } from "../../work/item.ts";
import { isObject, type JsonObject } from "../../work/json.ts";
import type { AnswerMembers, EmbeddingOutput, FinishReason } from "../../work/outcome.ts";

/** Bytes passed on at once. */
const CHUNK_CHARS = 64 * 1024;

/** Codes that OpenAI has for lines that were not answered in time, and not sent any more. */
const CODES: Readonly<Record<string, string>> = { expired: "batch_expired", cancelled: "batch_cancelled" };

/** The line of an answer; `line` has an output. */
export function answerLine(line: AnsweredLine): string {
  const { body, facts, key } = line;
  const isOpenai = isObject(body?.value) && isOpenaiBody(body.value);
  const json = isOpenai ? body.json : JSON.stringify(translated(line));
  const request = JSON.stringify(facts.provider_request_id ?? "");
  const response = `{"status_code":200,"request_id":${request},"body":${json}}`;
  return `{"id":"${idOf(line)}","custom_id":${JSON.stringify(key)},"response":${response},"error":null}\n`;
}

/** Whether it has the list of answers of a chat or completion, of embeddings, of moderations or of a response. */
function isOpenaiBody(body: JsonObject): boolean {
  const { choices, data, results, output } = body;
  return [choices, data, results, output].some(Array.isArray);
}

function translated(line: AnsweredLine): object {
  return line.output?.type === "embedding" ? embeddingsOf(line, line.output) : completionOf(line);
}

/** A list of embeddings. */
function embeddingsOf({ facts, usage }: AnsweredLine, { embedding, embeddings }: EmbeddingOutput): object {
  const vectors = embeddings ?? (embedding === undefined ? [] : [embedding]);
  return {
    object: "list",
    data: vectors.map((vector, index) => ({ object: "embedding", index, embedding: vector })),
    model: facts.model,
    usage: { prompt_tokens: usage.input_tokens, total_tokens: usage.input_tokens },
  };
}

/** A chat completion; JSON.stringify leaves out what is undefined. */
function completionOf(line: AnsweredLine): object {
  const { provider_request_id: id, model, usage, logprobs = null, finish_reason } = line.facts;
  const { other_candidates: others = [] } = line.facts;
  return {
    id,
    object: "chat.completion",
    model,
    choices: [
      {
        index: 0,
        message: messageOf(line.output?.text ?? "", line.facts),
        logprobs,
        finish_reason: reasonOf(finish_reason),
      },
      ...others.map((other, index) => ({
        index: index + 1,
        message: messageOf(other.text, other),
        logprobs: other.logprobs ?? null,
        finish_reason: reasonOf(other.finish_reason),
      })),
    ],
    usage: {
      prompt_tokens: line.usage.input_tokens,
      completion_tokens: line.usage.output_tokens,
      total_tokens: line.usage.input_tokens + line.usage.output_tokens,
      ...(usage === undefined ? {} : detailsOf(usage)),
    },
  };
}

function detailsOf({ cached_tokens, reasoning_tokens }: ItemUsage): object {
  return { prompt_tokens_details: { cached_tokens }, completion_tokens_details: { reasoning_tokens } };
}

function messageOf(text: string, { tool_calls, refusal, reasoning, annotations }: AnswerMembers): object {
  const isEmpty = text === "" && (tool_calls !== undefined || refusal !== undefined);
  return {
    role: "assistant",
    content: isEmpty ? null : text,
    refusal: refusal ?? null,
    tool_calls,
    annotations,
    reasoning_content: reasoning,
  };
}

/** OpenAI knows no others; a refusal ends there like any answer. */
function reasonOf(reason: FinishReason | undefined): string {
  return reason === "length" || reason === "tool_calls" || reason === "content_filter" ? reason : "stop";
}

/** The line of a request that has no answer. */
export function errorLine(line: AnsweredLine): string {
  const { key, status, error } = line;
  const code = CODES[status] ?? error?.code ?? "internal_error";
  const shown = { code, message: error?.message ?? "", line: error?.line };
  return `${JSON.stringify({ id: idOf(line), custom_id: key, response: null, error: shown })}\n`;
}

/** Of the line, not of the request to the provider. */
function idOf({ objectId }: AnsweredLine): string {
  return `batch_req_${objectId.replaceAll("-", "")}`;
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
