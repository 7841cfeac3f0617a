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
import { isObject, type JsonObject } from "../../work/json.ts";
import { completionOf } from "../shapes/chat_completion.ts";
import { embeddingList } from "../shapes/embedding_list.ts";

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
  const { output } = line;
  if (output?.type === "embedding") return embeddingList(output, line.facts.model, line.usage.input_tokens);
  return completionOf({ ...line, output });
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
