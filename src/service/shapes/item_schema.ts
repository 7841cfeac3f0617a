/**
 * The shapes of an item of a request (interface 2.1), with what perigee adds: as schemas for checks and for the description.
 */
import { SETTING_NAMES } from "../../jsonl/config.ts";
import { issuesOf, namedErrors, z } from "../../schema.ts";
import type { RequestItem } from "../../tasks/shapes/requests.ts";
import { isObject } from "../../work/json.ts";
import { meantModel } from "../../work/model_owner.ts";
import { ENDPOINT_KINDS, parseModelId } from "../../work/request.ts";
import { SLA_MINUTES_MAX } from "../../work/sla.ts";
import { ownFileId } from "./openai_ids.ts";

const SLA_FAULT = `must be whole minutes from 1 to ${SLA_MINUTES_MAX}`;
const slaMinutes = z
  .number(SLA_FAULT)
  .int(SLA_FAULT)
  .min(1, SLA_FAULT)
  .max(SLA_MINUTES_MAX, SLA_FAULT)
  .describe("Completion window in minutes; absent: at once.");
const TOKENS_FAULT = "must be a whole number from 1";
const outputTokens = z.number(TOKENS_FAULT).int(TOKENS_FAULT).min(1, TOKENS_FAULT);
const MODEL_FAULT = 'must be "<provider>:<name>"';
/** What else was sent there, such as a prompt, is never shown. */
const LOOKS_LIKE_MODEL = /^[\w./-]{1,64}$/;
const modelName = z
  .string(MODEL_FAULT)
  .max(512)
  .refine((id) => parseModelId(id) !== undefined, {
    error: ({ input }) => `${MODEL_FAULT}${LOOKS_LIKE_MODEL.test(String(input)) ? meantModel(input) : ""}`,
  })
  .describe("Model as <provider>:<name>.")
  .meta({ examples: ["echo:test"] });
const QUESTIONS = ["input", "contents", "messages"] as const;
/** Settings beside a question; their values are checked as those of a file's line are. */
const settings = Object.fromEntries(
  SETTING_NAMES.filter((name) => name === name.toLowerCase()).map((name) => [name, z.unknown().optional()]),
);
/** Functions and what only Gemini has, beside any question. */
const TOOL_MEMBERS = [
  "tools",
  "tool_choice",
  "tool_config",
  "parallel_tool_calls",
  "safety_settings",
  "cached_content",
] as const;
const toolMembers = Object.fromEntries(
  TOOL_MEMBERS.map((name) => [name, z.unknown().optional().describe("As in a line of a file.")]),
);
/** Members of OpenAI's body that an item with messages may have. */
const CHAT_MEMBERS = ["response_format", "reasoning_effort", "service_tier", "user"] as const;
const chatMembers = Object.fromEntries(
  CHAT_MEMBERS.map((name) => [
    name,
    z.unknown().optional().describe("With messages, as in OpenAI's chat completions."),
  ]),
);
const ITEM_METADATA = z
  .record(z.string(), z.unknown(), "must be an object")
  .optional()
  .describe("Your own; it is returned with the answer.");
const answerSchema = z
  .union([z.record(z.string(), z.unknown()), z.boolean()], "must be a JSON Schema")
  .optional();
const inlineItem = z
  .strictObject({
    ...settings,
    ...toolMembers,
    ...chatMembers,
    kind: z.literal("chat").optional().describe("Default chat; items of other kinds have another form."),
    model: modelName,
    input: z.string("must be text").optional().describe("Prompt text; or contents, or messages."),
    contents: z
      .array(z.record(z.string(), z.unknown()), "must be a list of objects")
      .optional()
      .describe("Turns as in a line of a file."),
    messages: z
      .array(z.record(z.string(), z.unknown()), "must be a list of objects")
      .optional()
      .describe("OpenAI's messages."),
    sla: slaMinutes.optional(),
    generation_config: z
      .record(z.string(), z.unknown(), "must be an object")
      .optional()
      .describe("Settings as in a line of a file; one that is not known fails the item."),
    metadata: ITEM_METADATA,
    schema: z
      .union([answerSchema, z.null()], "must be a JSON Schema")
      .optional()
      .describe("JSON Schema that the answer must fit; null: it is not checked."),
    system: z.string("must be text").optional().describe("System instruction."),
    max_tokens: outputTokens.optional().describe("As generation_config.max_output_tokens."),
    max_completion_tokens: outputTokens.optional().describe("The same."),
    stop: z
      .union([z.string(), z.array(z.string())], "must be text or a list of texts")
      .optional()
      .describe("As generation_config.stop_sequences."),
  })
  .superRefine((item, context) => {
    const [question, other] = QUESTIONS.filter((name) => item[name] !== undefined);
    if (question === undefined)
      context.addIssue({
        code: "custom",
        path: ["input"],
        message: "must be text; or set contents, or messages",
      });
    else if (other !== undefined)
      context.addIssue({
        code: "custom",
        path: [other],
        message: `must not be set together with ${question}`,
      });
    const chat =
      item.messages === undefined ? CHAT_MEMBERS.find((name) => Object.hasOwn(item, name)) : undefined;
    if (chat !== undefined)
      context.addIssue({ code: "custom", path: [chat], message: "must be set together with messages" });
    const place = localPathIn(item.contents);
    if (place !== undefined)
      context.addIssue({
        code: "custom",
        path: ["contents"],
        message: `must not name a local path (${place}); only the library and the command read those`,
      });
  })
  .meta({ id: "InlineItem" });
/** Its other members are of OpenAI's body, and are checked as a line of a file is: one that is not valid fails the item. */
const endpointItem = z
  .looseObject({
    kind: z
      .enum(ENDPOINT_KINDS, `must be one of chat, ${ENDPOINT_KINDS.join(", ")}`)
      .describe("Of another endpoint than a chat's."),
    model: modelName,
    sla: slaMinutes.optional(),
    metadata: ITEM_METADATA,
    input: z
      .union([z.string(), z.array(z.unknown())], "must be text or a list")
      .optional()
      .describe("Of an embedding: a text, a list of texts, or token ids; else as in OpenAI's body."),
    prompt: z
      .union([z.string(), z.array(z.unknown())], "must be text or a list")
      .optional()
      .describe("Of a completion."),
    dimensions: z.unknown().optional().describe("Of an embedding: how many numbers it has."),
    encoding_format: z.unknown().optional().describe("Of an embedding: float (default) or base64."),
  })
  .meta({ id: "EndpointItem" });

/** The first part that is a file of the machine; the service reads none for any caller. */
function localPathIn(contents: readonly Readonly<Record<string, unknown>>[] | undefined): string | undefined {
  for (const [index, { parts }] of (contents ?? []).entries()) {
    if (!Array.isArray(parts)) continue;
    const found = parts.findIndex((part: unknown) => {
      const file = isObject(part) ? (part["file_data"] ?? part["fileData"]) : undefined;
      return isObject(file) && file["path"] !== undefined && file["path"] !== null;
    });
    if (found >= 0) return `contents[${index}].parts[${found}]`;
  }
  return undefined;
}

/** The fields of most items. Checking them is faster: zod takes as long for an absent field as for a present one. */
const plainItem = z.strictObject({ model: modelName, input: z.string(), sla: slaMinutes.optional() });
const PLAIN_FIELDS_MAX = 3;
const fileItem = z
  .strictObject({
    file_id: z
      .string("must be text")
      .max(64)
      .describe("Id of an uploaded file, also as OpenAI's clients know it (file-...): all its lines."),
    sla: slaMinutes.optional(),
    schema: answerSchema.describe("JSON Schema that answers to its lines must fit that have none."),
  })
  .meta({ id: "FileItem" });

/** The body of POST /v0/infer/. */
export const requestItems: z.ZodType = z.array(z.union([inlineItem, endpointItem, fileItem])).min(1);

/** What is wrong with an item, and with which of its fields. */
export interface ItemFault {
  readonly field: string | undefined;
  readonly message: string;
}

/** Returns the item as it is when it has the documented form and no field besides. */
export function checkItem(value: unknown): RequestItem | ItemFault {
  const isRecord = typeof value === "object" && value !== null;
  if (isRecord && Object.keys(value).length <= PLAIN_FIELDS_MAX) {
    const plain = plainItem.safeParse(value);
    if (plain.success) return plain.data as RequestItem; // the schemas above state the same shapes
  }
  const isFile = isRecord && "file_id" in value;
  const isKind = isRecord && "kind" in value && value.kind !== "chat" && value.kind !== undefined;
  const parsed = (isFile ? fileItem : isKind ? endpointItem : inlineItem).safeParse(value, namedErrors);
  if (parsed.success) return ownItem(parsed.data as RequestItem);
  const issue = issuesOf(parsed.error)[0];
  const [field] = issue?.path ?? [];
  if (issue?.code === "unrecognized_keys" && field === undefined) {
    const [given = ""] = issue.keys;
    const isAsked = isFile || isKind || QUESTIONS.some((name) => isRecord && name in value);
    const hint =
      isAsked || issue.message.includes(";") ? "" : `; the question is input, contents or messages`;
    return {
      field: issue.message.includes(`"${given}"`) ? given : undefined,
      message: `${issue.message}${hint}`,
    };
  }
  if (field === undefined)
    return {
      field,
      message: "must be an object with model and input, contents or messages, or with file_id",
    };
  return { field: String(field), message: `${String(field)} ${issue?.message ?? "is not as documented"}` };
}

/** A file may be named as OpenAI's clients know it. */
function ownItem(item: RequestItem): RequestItem {
  return "file_id" in item ? { ...item, file_id: ownFileId(item.file_id) } : item;
}
