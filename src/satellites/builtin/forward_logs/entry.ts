/**
 * A log entry in the form for every receiver, from a member of a list or from a line of a file.
 *
 * A line that is a JSON object with a `message` is an entry; any other line is the message itself, unchanged: a log of
 * plain text, and answers of an inference, can be forwarded too. Nothing is dropped for its form.
 *
 * Limits: messages are cut to what the receiver takes; attributes above 32 KiB, or nested deeper than 32, become one text.
 */
import { scanStructure } from "../../../jsonl/structure.ts";
import { objectOf, stringOf } from "../../../providers/json.ts";
import { z } from "../../../schema.ts";
import type { Json, JsonObject } from "../../../work/json.ts";
import { cutBytes } from "../exchange/cut_text.ts";

const ATTRIBUTES_BYTES_MAX = 32 * 1024;
const DEPTH_MAX = 32;

/** From the least severe; each receiver has its own words or numbers for it. */
export type Level = "trace" | "debug" | "info" | "warning" | "error" | "critical";

/** `wallMs` is Unix time; the message is cut to what the receiver takes. */
export interface LogEntry {
  /** Unix time. */
  readonly wallMs: number;
  readonly level: Level;
  readonly message: string;
  readonly attributes: JsonObject;
}

/** Unchanged. */
export interface EntryInput {
  readonly time?: string | number | undefined;
  readonly level?: string | undefined;
  readonly message: string;
  readonly attributes?: Readonly<Record<string, Json>> | undefined;
}

const LEVELS: Readonly<Record<string, Level>> = {
  trace: "trace",
  debug: "debug",
  info: "info",
  notice: "info",
  warn: "warning",
  warning: "warning",
  err: "error",
  error: "error",
  crit: "critical",
  critical: "critical",
  alert: "critical",
  emerg: "critical",
  fatal: "critical",
};

export const entryInput: z.ZodType<EntryInput> = z.strictObject({
  time: z
    .union([z.iso.datetime({ offset: true }), z.int().min(0)])
    .optional()
    .describe("ISO 8601, or Unix time in milliseconds. Default: that of the first attempt."),
  level: z
    .string()
    .refine((text) => levelOf(text) !== undefined, `must be one of ${Object.keys(LEVELS).join(", ")}`)
    .optional()
    .describe("trace, debug, info (unless said otherwise), warning, error or critical."),
  message: z.string().describe("The line itself."),
  attributes: z.record(z.string(), z.json()).optional().describe("More about it, by name."),
});

/** What an entry may have at most, and what it gets that has no time. */
export interface EntryBounds {
  readonly messageBytesMax: number;
  readonly wallMs: number;
}

/** Without a time that can be read it is `wallMs`; without a known level `info`. */
export function entryOf(input: EntryInput, { messageBytesMax, wallMs }: EntryBounds): LogEntry {
  const time = input.time === undefined ? Number.NaN : new Date(input.time).getTime();
  return {
    wallMs: Number.isNaN(time) ? wallMs : time,
    level: levelOf(input.level ?? "") ?? "info",
    message: cutBytes(input.message, messageBytesMax),
    attributes: boundAttributes(input.attributes ?? {}),
  };
}

/** An object of JSON with a `message`, or the line itself as the message. */
export function entryOfLine(line: string, bounds: EntryBounds): LogEntry {
  const value = scanStructure(line, DEPTH_MAX).isTooDeep ? undefined : parsed(line);
  const message = stringOf(value?.["message"]);
  if (value === undefined || message === undefined) return entryOf({ message: line }, bounds);
  const { time, level, attributes, message: _message, ...others } = value;
  const named = objectOf(attributes);
  return entryOf(
    {
      time: typeof time === "number" || typeof time === "string" ? time : undefined,
      level: stringOf(level),
      message,
      // Parsed JSON, so that its members are JSON.
      attributes: { ...others, ...(named ?? (attributes === undefined ? {} : { attributes })) } as JsonObject,
    },
    bounds,
  );
}

function levelOf(text: string): Level | undefined {
  const name = text.toLowerCase();
  return Object.hasOwn(LEVELS, name) ? LEVELS[name] : undefined;
}

function parsed(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return objectOf(JSON.parse(line));
  } catch {
    return undefined;
  }
}

function boundAttributes(attributes: JsonObject): JsonObject {
  const text = JSON.stringify(attributes);
  const isSmall = text.length <= ATTRIBUTES_BYTES_MAX && !scanStructure(text, DEPTH_MAX).isTooDeep;
  return isSmall ? attributes : { attributes: cutBytes(text, ATTRIBUTES_BYTES_MAX) };
}

/** For receivers that take only texts. */
export function asText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
