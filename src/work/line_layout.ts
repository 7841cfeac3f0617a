/**
 * How output lines are laid out.
 *
 *   perigee   {"key","output","finish_reason",...}; `fields` says which members are beside key and output
 *   openai    OpenAI's batch output: {"id","custom_id","response":{"status_code","request_id","body"},"error"}
 *   raw       {"key","body"}
 *
 * The body is the provider's own, with no byte changed but line ends between tokens, which go.
 */
import { suggestion } from "../nearest.ts";

export const LINE_FORMATS = ["perigee", "openai", "raw"] as const;

export type LineFormat = (typeof LINE_FORMATS)[number];

/**
 * Members that may be beside `key` and `output` (`error`, and `warnings` if any, always are): all but `body` unless a call
 * names some. `body` is the provider's own, at the end of the line.
 */
export const LINE_FIELDS = [
  "parsed",
  "finish_reason",
  "tool_calls",
  "refusal",
  "reasoning",
  "logprobs",
  "annotations",
  "other_candidates",
  "model",
  "usage",
  "cost",
  "latency_ms",
  "late",
  "attempts",
  "cached",
  "provider_request_id",
  "metadata",
  "body",
] as const;

export type LineField = (typeof LINE_FIELDS)[number];

export interface LineLayout {
  readonly format: LineFormat;
  /** Undefined: the usual ones. */
  readonly fields: ReadonlySet<LineField> | undefined;
  /** Whether lines have the provider's body. */
  readonly hasBody: boolean;
}

/** What a call says of it. */
export interface LayoutTerms {
  /** Default `perigee`. */
  readonly format?: LineFormat;
  /** Default: all but `body`. Empty: no members. */
  readonly fields?: readonly LineField[];
}

export function lineLayout({ format = "perigee", fields }: LayoutTerms): LineLayout {
  const named = fields === undefined ? undefined : new Set(fields);
  const hasBody = format !== "perigee" || named?.has("body") === true;
  const isUsual = named === undefined || LINE_FIELDS.every((name) => name === "body" || named.has(name));
  return { format, fields: isUsual ? undefined : named, hasBody };
}

/** Why a layout cannot be; undefined when it can. */
export function layoutFault({
  format,
  fields,
}: {
  readonly format?: unknown;
  readonly fields?: unknown;
}): string | undefined {
  if (format !== undefined && !LINE_FORMATS.some((each) => each === format))
    return `format must be one of ${LINE_FORMATS.join(", ")}, got ${JSON.stringify(format)}`;
  if (fields === undefined) return undefined;
  if (!Array.isArray(fields)) return `fields must be a list of names, got ${JSON.stringify(fields)}`;
  const unknown: unknown = fields.find((name) => !LINE_FIELDS.some((each) => each === name));
  if (unknown !== undefined) {
    const hint = suggestion(String(unknown), LINE_FIELDS);
    return `fields: ${JSON.stringify(unknown)} is not a member of a line${hint === "" ? `; expected some of ${LINE_FIELDS.join(", ")}` : `; ${hint}`}`;
  }
  return format === undefined || format === "perigee"
    ? undefined
    : `fields cannot be combined with format ${String(format)}`;
}
