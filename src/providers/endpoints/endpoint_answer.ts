/**
 * Answers of OpenAI's endpoints besides chat, and of servers that speak them.
 *
 *   embedding     `data` has one vector for each input, ordered by `index` -> success; fewer, or none -> ambiguous
 *   moderation    `results` -> success; none -> ambiguous
 *   completion    the choice at index 0, by its `finish_reason`, as of a chat
 *   response      by `status`: completed -> text, function calls or a refusal; incomplete -> cut off or filtered by its reason;
 *                 failed -> by its own error; anything else (queued, cancelled) is ambiguous
 *
 * Usage: `prompt_tokens` and `total_tokens` of embeddings, which have no output; `input_tokens` and `output_tokens` of responses.
 */
import type { AnswerMembers, Usage, WrittenValue } from "../../work/outcome.ts";
import type { EndpointKind, JsonValue } from "../../work/request.ts";
import { brokenOff, cutOff, ended, filtered, type ReadAnswer, success } from "../endings.ts";
import { errorFacts } from "../error_body.ts";
import { isHtml } from "../exchange.ts";
import {
  answerJson,
  arrayOf,
  countOf,
  firstByIndex,
  nameOf,
  objectOf,
  stringOf,
  type Unchecked,
} from "../json.ts";
import type { Decoded, WireAnswer } from "../provider.ts";
import { itemFailure, refusalInside, refusalOf, vectorsMissing } from "../refusals.ts";
import { bounded, openaiUsage } from "../usage.ts";
import { cutEmbeddings } from "./cut_embeddings.ts";

/** Reads an answer; `name` is the provider's. Total: for any bytes. */
export function endpointAnswer(kind: EndpointKind, answer: WireAnswer, name: string): Decoded {
  if (answer.status < 200 || answer.status > 299) return refusalOf(name, answer);
  if (isHtml(answer)) return notJson(name);
  if (kind === "embedding") return embeddings(answer, name);
  const body = objectOf(answerJson(answer));
  if (body === undefined) return notJson(name);
  const usage = usageOf(body["usage"]);
  const error = body["error"] ?? (body["object"] === "error" ? body : undefined);
  if (error !== undefined) return refusalInside(name, answer, errorFacts(error), usage);
  if (kind === "moderation") return moderation(body, answer, name);
  const read = { ...factsOf(body, answer), name, usage };
  return kind === "completion" ? completion(body, read) : response(body, read);
}

function notJson(name: string): Decoded {
  return itemFailure("ambiguous", "invalid_response", `${name} answered no JSON object`);
}

type ReadFacts = Pick<ReadAnswer, "model" | "requestId" | "tier">;

function factsOf(body: Unchecked, answer: WireAnswer): ReadFacts {
  return {
    model: nameOf(body["model"]),
    requestId: nameOf(answer.headers["x-request-id"] ?? body["id"]),
    tier: nameOf(body["service_tier"]),
  };
}

function embeddings(answer: WireAnswer, name: string): Decoded {
  const cut = cutEmbeddings(answer.body, "embedding");
  const body = objectOf(cut?.rest);
  if (cut === undefined || body === undefined) {
    const value = objectOf(answerJson(answer));
    return value === undefined ? notJson(name) : withoutVectors(value, answer, name);
  }
  const values = inOrder(arrayOf(body["data"]) ?? [], cut.values);
  if (values === undefined) return withoutVectors(body, answer, name, cut.values.length);
  const facts = factsOf(body, answer);
  const output = { type: "embedding", values } as const;
  return { ...success({ text: "", usage: inputUsage(body["usage"]), ...facts }, "stop"), output } as Decoded;
}

function withoutVectors(body: Unchecked, answer: WireAnswer, name: string, found = 0): Decoded {
  const usage = inputUsage(body["usage"]);
  const error = body["error"] ?? (body["object"] === "error" ? body : undefined);
  if (error !== undefined) return refusalInside(name, answer, errorFacts(error), usage);
  return vectorsMissing(name, found, usage);
}

/** The vectors by the index of their input; undefined if one is missing, or is not a vector. */
function inOrder(
  data: readonly unknown[],
  cut: readonly WrittenValue[],
): readonly WrittenValue[] | undefined {
  if (data.length === 0) return undefined;
  const values: (WrittenValue | undefined)[] = Array(data.length).fill(undefined);
  for (const [place, entry] of data.entries()) {
    const each = objectOf(entry);
    const index = countOf(each?.["index"] ?? place);
    const value = cut[countOf(each?.["embedding"]) ?? -1];
    if (index === undefined || index >= data.length || value === undefined) return undefined;
    values[index] = value;
  }
  return values.every((value) => value !== undefined) ? (values as WrittenValue[]) : undefined; // each was checked
}

/** Of a request without output. */
function inputUsage(value: unknown): Usage | undefined {
  const usage = objectOf(value);
  const input = countOf(usage?.["prompt_tokens"]) ?? countOf(usage?.["total_tokens"]);
  return input === undefined ? undefined : bounded(input, 0, 0, 0, 0);
}

function moderation(body: Unchecked, answer: WireAnswer, name: string): Decoded {
  const results = arrayOf(body["results"]) ?? [];
  if (results.length === 0)
    return itemFailure("ambiguous", "invalid_response", `${name} answered without results`);
  const output = { type: "moderation", values: results.map((each) => JSON.stringify(each)) } as const;
  const usage = inputUsage(body["usage"]);
  return { ...success({ text: "", usage, ...factsOf(body, answer) }, "stop"), output } as Decoded;
}

type Reading = Omit<ReadAnswer, "text" | "members">;

function completion(body: Unchecked, read: Reading): Decoded {
  const choices = arrayOf(body["choices"]);
  if (choices === undefined)
    return itemFailure("ambiguous", "invalid_response", `${read.name} answered without choices`, read.usage);
  const choice = objectOf(firstByIndex(choices));
  const logprobs = choice?.["logprobs"] ?? undefined;
  const members = logprobs === undefined ? undefined : { logprobs: logprobs as JsonValue };
  const answer = { ...read, text: stringOf(choice?.["text"]) ?? "", members };
  switch (choice?.["finish_reason"]) {
    case "length":
      return cutOff(answer);
    case "content_filter":
      return filtered(answer);
    case "error":
    case "abort":
      return brokenOff(answer);
    default:
      return ended(answer);
  }
}

function response(body: Unchecked, read: Reading): Decoded {
  const items = arrayOf(body["output"]) ?? [];
  const answer = { ...read, ...contentOf(items) };
  switch (body["status"]) {
    case undefined:
    case "completed":
      return ended(answer);
    case "incomplete":
      return objectOf(body["incomplete_details"])?.["reason"] === "content_filter"
        ? filtered(answer)
        : cutOff(answer);
    default:
      return brokenOff(answer);
  }
}

/** The texts of its messages joined, and what it has besides: items of other kinds are left to the body. */
function contentOf(items: readonly unknown[]): Pick<ReadAnswer, "text" | "members"> {
  let text = "";
  let refusal = "";
  let reasoning = "";
  const calls: JsonValue[] = [];
  const annotations: JsonValue[] = [];
  const logprobs: JsonValue[] = [];
  for (const value of items) {
    const item = objectOf(value);
    if (item?.["type"] === "function_call") calls.push(callOf(item));
    else if (item?.["type"] === "reasoning") reasoning += textsOf(item["summary"]) + textsOf(item["content"]);
    else if (item?.["type"] === "message") {
      for (const each of arrayOf(item["content"]) ?? []) {
        const part = objectOf(each);
        text += stringOf(part?.["text"]) ?? "";
        refusal += stringOf(part?.["refusal"]) ?? "";
        annotations.push(...((arrayOf(part?.["annotations"]) ?? []) as JsonValue[]));
        logprobs.push(...((arrayOf(part?.["logprobs"]) ?? []) as JsonValue[]));
      }
    }
  }
  const members: AnswerMembers = {
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(refusal === "" ? {} : { refusal }),
    ...(reasoning === "" ? {} : { reasoning }),
    ...(annotations.length === 0 ? {} : { annotations }),
    ...(logprobs.length === 0 ? {} : { logprobs }),
  };
  return Object.keys(members).length === 0 ? { text } : { text, members };
}

function textsOf(parts: unknown): string {
  return (arrayOf(parts) ?? []).map((part) => stringOf(objectOf(part)?.["text"]) ?? "").join("");
}

/** In the form of a chat's calls, with the id that its result names. */
function callOf(item: Unchecked): JsonValue {
  const id = stringOf(item["call_id"]) ?? stringOf(item["id"]);
  const called = { name: stringOf(item["name"]) ?? "", arguments: stringOf(item["arguments"]) ?? "" };
  return { ...(id === undefined ? {} : { id }), type: "function", function: called };
}

/** Responses have other names than completions for the same counts. */
function usageOf(value: unknown): Usage | undefined {
  const usage = objectOf(value);
  if (usage?.["input_tokens"] === undefined) return openaiUsage(value, false);
  return openaiUsage(
    {
      prompt_tokens: usage["input_tokens"],
      completion_tokens: usage["output_tokens"],
      prompt_tokens_details: usage["input_tokens_details"],
      completion_tokens_details: usage["output_tokens_details"],
    },
    false,
  );
}
