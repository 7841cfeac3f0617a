/**
 * Recognises what a line of a log is, by its members, and reads it into a sink.
 *
 * A file may mix all formats. What decides is listed in `readEntry`, in the order of the most frequent.
 */
import { arrayOf, objectOf, type Unchecked } from "../providers/json.ts";
import {
  readMessage,
  readReportBucket,
  readReportResult,
  readResultLine,
} from "./formats/anthropic_lines.ts";
import { readSpendRow } from "./formats/litellm_lines.ts";
import { readAnswer, readBatchLine, readBucket, readResult } from "./formats/openai_lines.ts";
import { readResourceSpans, readSpan } from "./formats/otel_lines.ts";
import type { Refusal, UsageSink } from "./logged_usage.ts";

const UNKNOWN =
  "not a line of an OpenAI or Anthropic usage export, a LiteLLM spend log or an OpenTelemetry GenAI span";

/** Returns what is wrong when nothing, or not all, of the line was understood; what was, is in the sink. */
export function readLogLine(text: string, sink: UsageSink): Refusal {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "not valid JSON";
  }
  return Array.isArray(value) ? readArray(value, sink) : readOne(value, sink);
}

/** Some exports are one array on one line. */
function readArray(entries: readonly unknown[], sink: UsageSink): Refusal {
  let refusal: Refusal;
  for (const [index, entry] of entries.entries()) {
    const wrong = readOne(entry, sink);
    refusal ??= wrong === undefined ? undefined : `entry ${index + 1}: ${wrong}`;
  }
  return refusal;
}

function readOne(value: unknown, sink: UsageSink): Refusal {
  const line = objectOf(value);
  return line === undefined ? `${UNKNOWN}: not an object` : readEntry(line, sink);
}

function readEntry(line: Unchecked, sink: UsageSink): Refusal {
  if (line["prompt_tokens"] !== undefined) return readSpendRow(line, sink);
  if (line["resourceSpans"] !== undefined) return readResourceSpans(line, sink);
  if (line["type"] === "message" && line["usage"] !== undefined) return readMessage(line, sink);
  if (isAnswer(line)) return readAnswer(line, sink);
  if (line["custom_id"] !== undefined)
    return line["result"] === undefined ? readBatchLine(line, sink) : readResultLine(line, sink);
  if (isSpan(line)) return readSpan(line, sink);
  return readExport(line, sink);
}

/** Some logs keep of an answer only its model and its usage. */
function isAnswer(line: Unchecked): boolean {
  const usage = objectOf(line["usage"]);
  if (usage === undefined) return false;
  return usage["prompt_tokens"] !== undefined || line["object"] === "response";
}

function isSpan(line: Unchecked): boolean {
  if (line["attributes"] !== undefined) return true;
  return line["gen_ai.request.model"] !== undefined || line["gen_ai.usage.input_tokens"] !== undefined;
}

/** A page, a bucket or a result of an export. */
function readExport(line: Unchecked, sink: UsageSink): Refusal {
  const data = arrayOf(line["data"]);
  if (data !== undefined) return readPage(data, sink);
  if (arrayOf(line["results"]) !== undefined)
    return line["object"] === "bucket" ? readBucket(line, sink) : readReportBucket(line, sink);
  if (line["uncached_input_tokens"] !== undefined) return readReportResult(line, sink);
  const object = line["object"];
  if (typeof object === "string" && object.startsWith("organization.")) return readResult(line, sink);
  if (line["amount"] !== undefined && line["currency"] !== undefined) return readReportResult(line, sink);
  return UNKNOWN;
}

function readPage(data: readonly unknown[], sink: UsageSink): Refusal {
  let refusal: Refusal;
  for (const [index, one] of data.entries()) {
    const bucket = objectOf(one);
    const wrong =
      bucket === undefined || arrayOf(bucket["results"]) === undefined ? UNKNOWN : readExport(bucket, sink);
    refusal ??= wrong === undefined ? undefined : `entry ${index + 1}: ${wrong}`;
  }
  return refusal;
}
