/**
 * One line as an object with its key: the checks that every layout shares, in a fixed order.
 *
 *   blank? -> UTF-8 -> depth -> JSON -> object -> repeated members -> key
 *
 * A key is readable when the line passes all of them; later errors are reported under that key.
 * Keys are compared and echoed as they are: NFC and NFD differ, `__proto__` is a key like any other.
 *
 * Limits: depth 64, key 512 bytes of UTF-8 (both options). Hot path: at most 3 us for a line of 600 bytes, of which
 * `JSON.parse` takes about half (`bench/parts/read.ts`).
 */
import { isUtf8 } from "node:buffer";
import type { FailureCode } from "../errors.ts";
import { nearest } from "../nearest.ts";
import { isObject, type JsonObject } from "../work/json.ts";
import type { JsonValue } from "../work/request.ts";
import { shown, shownKind } from "./fault.ts";
import { isBlank } from "./lines.ts";
import { isText, markNumbers } from "./numbers.ts";
import { countMembers, repeatedMember, scanStructure } from "./structure.ts";

/** Bounds and facts for reading a line. */
export interface RecordOptions {
  /** Objects and arrays around a value at most. Default 64. */
  readonly depthMax?: number | undefined;
  /** Bytes of a key in UTF-8 at most. Default 512. */
  readonly keyBytesMax?: number | undefined;
  /** True when the caller has checked that the bytes are UTF-8. */
  readonly isUtf8?: boolean | undefined;
}

/** A line with a readable key, or why its key is not readable. */
export type LineRecord =
  | {
      readonly kind: "record";
      readonly key: string;
      /** `openai`: the key was `custom_id`. */
      readonly layout: "interface" | "openai";
      readonly object: JsonObject;
      /** Some numbers are placeholders (`numbers.ts`). */
      readonly hasExactNumbers: boolean;
      /** Lone surrogates in some text were replaced by U+FFFD. */
      readonly hasReplacedText: boolean;
    }
  | { readonly kind: "rejected"; readonly key: null; readonly code: FailureCode; readonly message: string }
  | { readonly kind: "blank" };

export const DEPTH_MAX = 64;
export const KEY_BYTES_MAX = 512;

// Bytes are checked before they are decoded. A byte order mark inside the input is kept, so that JSON.parse refuses it.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
/** An escape that may be half of a pair; valid UTF-8 holds no surrogate otherwise. */
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;
const LONE_SURROGATES = /\p{Surrogate}/gu;

/** Reads one line, with or without its line end. Never throws, for any bytes. */
export function readRecord(bytes: Uint8Array, options: RecordOptions = {}): LineRecord {
  if (isBlank(bytes)) return { kind: "blank" };
  if (options.isUtf8 !== true && !isUtf8(bytes))
    return rejected("invalid_utf8", "the line is not valid UTF-8");
  const text = decoder.decode(bytes);
  const depthMax = options.depthMax ?? DEPTH_MAX;
  const structure = scanStructure(text, depthMax);
  if (structure.isTooDeep) return rejected("too_deep", `nested deeper than ${depthMax} levels`);
  let value = parseJson(text);
  if (value === undefined) return rejected("invalid_json", "the line is not one JSON value");
  let hasExactNumbers = false;
  if (structure.hasLongNumber) {
    const marked = markNumbers(text);
    hasExactNumbers = marked !== text;
    if (hasExactNumbers) value = parseJson(marked);
  }
  if (!isObject(value))
    return rejected("invalid_line", `the line must be a JSON object, got ${shownKind(value)}`);
  if (countMembers(value) < structure.memberCount)
    return rejected(
      "duplicate_member",
      `the member ${shown(repeatedMember(text)?.name)} occurs twice in one object`,
    );
  return withKey(value, text, hasExactNumbers, options.keyBytesMax ?? KEY_BYTES_MAX);
}

/** The key of a line under the same rules as `readRecord`. Never throws. */
export function readKey(
  bytes: Uint8Array,
  options: RecordOptions = {},
): { readonly ok: true; readonly key: string } | { readonly ok: false } {
  const record = readRecord(bytes, options);
  return record.kind === "record" ? { ok: true, key: record.key } : { ok: false };
}

function withKey(
  object: JsonObject,
  text: string,
  hasExactNumbers: boolean,
  keyBytesMax: number,
): LineRecord {
  const hasKey = Object.hasOwn(object, "key");
  const hasCustomId = Object.hasOwn(object, "custom_id");
  if (hasKey && hasCustomId) return rejected("invalid_line", "the line has both key and custom_id");
  const isOpenai = hasCustomId || (!hasKey && Object.hasOwn(object, "body"));
  const name = isOpenai ? "custom_id" : "key";
  const key = object[name];
  const maySurrogates = text.includes("\\u") && SURROGATE_ESCAPE.test(text);
  const fault = keyFault(key, name, keyBytesMax, maySurrogates);
  if (fault !== undefined || typeof key !== "string")
    return rejected("invalid_key", `${fault ?? name}${key === undefined ? meantKey(object, name) : ""}`);
  return {
    kind: "record",
    key,
    layout: isOpenai ? "openai" : "interface",
    object,
    hasExactNumbers,
    hasReplacedText: maySurrogates && replaceLoneSurrogates(object),
  };
}

/** A suggestion for a missing key, with the member that was probably meant to be it; empty without one. */
function meantKey(object: JsonObject, name: string): string {
  const given = Object.keys(object).find((other) => nearest(name, [other]) !== undefined);
  return given === undefined ? "" : `; did you mean "${name}" instead of ${shown(given)}?`;
}

/** What is wrong with a key, in words. Control characters are refused but for the tab. */
function keyFault(
  key: JsonValue | undefined,
  name: string,
  keyBytesMax: number,
  maySurrogates: boolean,
): string | undefined {
  if (!isText(key)) return `${name} must be a string, got ${shown(key)}`;
  if (key === "") return `${name} is empty`;
  // A UTF-16 unit takes at most 3 bytes of UTF-8.
  if (key.length * 3 > keyBytesMax) {
    const lengthBytes = Buffer.byteLength(key);
    if (lengthBytes > keyBytesMax)
      return `${name} has ${lengthBytes} bytes, at most ${keyBytesMax} are allowed`;
  }
  for (let index = 0; index < key.length; index++) {
    const code = key.charCodeAt(index);
    if ((code < 0x20 && code !== 0x09) || code === 0x7f)
      return `${name} holds the control character U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  }
  if (maySurrogates && key.search(LONE_SURROGATES) >= 0) return `${name} holds half of a surrogate pair`;
  return undefined;
}

/** Replaces half surrogate pairs in all string values, in place; returns whether there were any. */
function replaceLoneSurrogates(container: object): boolean {
  const members = container as Record<string, unknown>; // arrays too: their indexes are names
  let isReplaced = false;
  for (const name of Object.keys(members)) {
    const member = members[name];
    if (typeof member === "string") {
      const whole = member.replace(LONE_SURROGATES, "\ufffd");
      if (whole === member) continue;
      members[name] = whole; // an own member, so this sets data even under the name __proto__
      isReplaced = true;
    } else if (typeof member === "object" && member !== null && replaceLoneSurrogates(member)) {
      isReplaced = true;
    }
  }
  return isReplaced;
}

function parseJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue; // JSON has no other values
  } catch {
    return undefined;
  }
}

function rejected(code: FailureCode, message: string): LineRecord {
  return { kind: "rejected", key: null, code, message };
}
