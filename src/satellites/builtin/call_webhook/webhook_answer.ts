/**
 * The answer of a webhook in an output: headers that were requested, and the first 64 KiB of the body.
 *
 * A body that is UTF-8 is text, a character that the cut has halved left out; any other is base64. What says that it is JSON, and
 * is, is also there as a value, so that members of a cluster can refer into it.
 *
 * Limits: JSON nested up to 32 levels.
 */
import { scanStructure } from "../../../jsonl/structure.ts";
import { z } from "../../../schema.ts";
import type { Json, JsonObject } from "../../../work/json.ts";
import type { GuardedResponse } from "../../sdk/guarded_http.ts";
import { isJsonType } from "./config.ts";

const DEPTH_MAX = 32;

export const webhookAnswer: z.ZodType<JsonObject> = z.strictObject({
  headers: z.record(z.string(), z.string()).describe("Those that were requested, by their lower-case names."),
  text: z.string().exactOptional().describe("The body, when it is UTF-8."),
  base64: z.string().exactOptional().describe("The body, when it is not."),
  json: z.json().exactOptional().describe("The body, when it is JSON by its content type, and whole."),
  is_whole: z.boolean().describe("False when the body was longer than 64 KiB, or ended early."),
});

/** `names` of headers in any case; those that did not arrive are left out. */
export function answerOf(response: GuardedResponse, names: readonly string[]): JsonObject {
  const { headers, body, isWhole } = response;
  const kept = names
    .map((name) => name.toLowerCase())
    .flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]] as const]));
  const text = textOf(body, isWhole);
  const json = text !== undefined && isWhole ? jsonOf(text, headers["content-type"] ?? "") : undefined;
  return {
    headers: Object.fromEntries(kept),
    ...(text === undefined ? { base64: Buffer.from(body).toString("base64") } : { text }),
    ...(json === undefined ? {} : { json }),
    is_whole: isWhole,
  };
}

function textOf(body: Uint8Array, isWhole: boolean): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(body, { stream: !isWhole });
  } catch {
    return undefined;
  }
}

function jsonOf(text: string, contentType: string): Json | undefined {
  if (!isJsonType(contentType) || scanStructure(text, DEPTH_MAX).isTooDeep) return undefined;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}
