/**
 * Output lines with the provider's own body.
 *
 *   openai   {"id","custom_id":K,"response":{"status_code":200,"request_id":R,"body":B},"error":null}
 *            {"id","custom_id":K,"response":null,"error":{...}}
 *            {"id","custom_id":null,"line":N,"response":null,"error":{...}}     the input line's key could not be read
 *   raw      {"key":K,"body":B}
 *            {"key":K,"body":null,"error":{...}}
 *
 * At the end `"warnings":[...]`, as in other lines. B has the bytes that the provider sent, without line ends between tokens.
 * Source of the layout: https://platform.openai.com/docs/api-reference/batch/request-output
 */
import { isObject, type Json, type JsonObject } from "../work/json.ts";
import type { LineFormat } from "../work/line_layout.ts";
import type { AttemptFacts } from "../work/outcome.ts";
import { asBuffer } from "./lines.ts";
import { afterString } from "./numbers.ts";

export type BodyFormat = Exclude<LineFormat, "perigee">;

const BODY_NAME = '"body":';

/** The first bytes of a line in OpenAI's layout. */
export const OPENAI_LINE_START = '{"id":"batch_req_';

/** Whose line it is. */
export interface LineOwner {
  /** The key as a JSON string literal; null when it could not be read. */
  readonly keyJson: string | null;
  /** Of the input, from 1. */
  readonly line: number | undefined;
  readonly taskId: string;
}

/** The line of an answer, with its newline. `warnings` are a list in JSON, or empty. */
export function bodyLine(
  format: BodyFormat,
  owner: LineOwner,
  { body, requestId = "" }: Pick<AttemptFacts, "body" | "requestId">,
  warnings: string,
): string {
  const text = body === undefined ? "null" : bodyJson(body);
  const end = endOf(warnings);
  if (format === "raw") return `{"key":${owner.keyJson},"body":${text}${end}`;
  const response = `{"status_code":200,"request_id":${JSON.stringify(requestId)},"body":${text}}`;
  return `${openaiStart(owner)},"response":${response},"error":null${end}`;
}

/** The line of an item without an answer. `error` is an object in JSON. */
export function bodilessLine(format: BodyFormat, owner: LineOwner, error: string, warnings: string): string {
  const end = `"error":${error}${endOf(warnings)}`;
  const place = owner.keyJson === null && owner.line !== undefined ? `,"line":${owner.line}` : "";
  if (format === "raw") return `{"key":${owner.keyJson}${place},"body":null,${end}`;
  return `${openaiStart(owner)}${place},"response":null,${end}`;
}

/**
 * The members of a line as `readOutputLine` reads those of perigee's own, and the provider's `body` of an answer; the same object if it
 * is one of these.
 */
export function asOwnLine(line: JsonObject): JsonObject {
  if ("custom_id" in line) {
    const { custom_id: key, response, ...others } = line;
    return { ...others, key: key ?? null, ...withOutput(isObject(response) ? response["body"] : null) };
  }
  if (!("body" in line) || "output" in line) return line;
  const { body, ...others } = line;
  return { ...others, ...withOutput(body) };
}

function withOutput(body: unknown): JsonObject {
  if (body === undefined || body === null) return { output: null };
  return { output: { type: "text", text: textsIn(body, 0) }, body: body as Json }; // it was parsed
}

/** Members of an answer that hold what was generated, in the words of each protocol. */
const GENERATED: ReadonlySet<string> = new Set([
  "content",
  "text",
  "refusal",
  "reasoning",
  "reasoning_content",
  "thinking",
  "arguments",
]);
const DEPTH_MAX = 8;

/** What was generated, for an estimate of its tokens. */
function textsIn(value: unknown, depth: number): string {
  if (typeof value !== "object" || value === null || depth > DEPTH_MAX) return "";
  let texts = "";
  for (const [name, member] of Object.entries(value)) {
    if (name === "logprobs") continue;
    texts += typeof member === "string" ? (GENERATED.has(name) ? member : "") : textsIn(member, depth + 1);
  }
  return texts;
}

function openaiStart({ keyJson, line = 0, taskId }: LineOwner): string {
  const id = `${taskId.replaceAll("-", "")}${line.toString(16).padStart(8, "0")}`;
  return `${OPENAI_LINE_START}${id}","custom_id":${keyJson}`;
}

/** A provider's body as a member of a line. JSON has line ends between tokens only: inside a string they are escaped. */
export function bodyJson(body: Uint8Array): string {
  const json = asBuffer(body).toString();
  return json.includes("\n") || json.includes("\r") ? json.replace(/[\r\n]+/g, "") : json;
}

/** The bytes of the provider's body at the end of a line of perigee's own; undefined if it does not have one. `line` is without its newline. */
export function bodyIn(line: string): string | undefined {
  let depth = 0;
  for (let at = 0; at < line.length; ) {
    const code = line.charCodeAt(at);
    if (code === 0x22) {
      if (depth === 1 && line.startsWith(BODY_NAME, at)) return line.slice(at + BODY_NAME.length, -1);
      at = afterString(line, at + 1);
      continue;
    }
    if (code === 0x7b || code === 0x5b) depth += 1;
    else if (code === 0x7d || code === 0x5d) depth -= 1;
    at += 1;
  }
  return undefined;
}

function endOf(warnings: string): string {
  return warnings === "" ? "}\n" : `,"warnings":${warnings}}\n`;
}
