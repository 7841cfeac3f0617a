/**
 * Reads a JSON object that an option names or holds.
 */
import { PerigeeError } from "../errors.ts";
import { readDocument } from "../jsonl/document.ts";
import { DEPTH_MAX } from "../jsonl/record.ts";
import { isObject, type JsonObject } from "../work/json.ts";

/** Throws `usage` with a message that begins with `expected`. The text is never shown, because it may hold a secret. */
export function jsonObject(text: string, expected: string): JsonObject {
  const read = readDocument(text, DEPTH_MAX);
  if (read.kind === "value" && isObject(read.value)) return read.value;
  if (read.kind === "repeated")
    throw new PerigeeError("usage", `${expected}; the name ${read.member.path} occurs twice in one object`);
  const why = read.kind === "too_deep" ? `; it is nested deeper than ${DEPTH_MAX} levels` : "";
  throw new PerigeeError("usage", `${expected}${why}`);
}
