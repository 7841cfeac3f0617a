/**
 * A part of perigee's layout that is not a plain text. The layout is Gemini's, and names in snake_case or camelCase are read.
 *
 *   text with thought, thought_signature      a text with them
 *   inline_data { mime_type, data }           a medium in base64
 *   file_data { file_uri }                    https://, gs://, s3:// or data:
 *   file_data { path } or { file_id }         a local file, or one of perigee's store
 *   function_call { name, args }              a call; thought_signature beside it is kept
 *   function_response { name, response }      a result
 *
 * A part has one of them. Parts of Gemini's own tools are refused by name.
 */
import { isObject, type JsonObject } from "../../work/json.ts";
import type { JsonValue, MediaPart, SignedText, ToolCallPart, ToolResultPart } from "../../work/request.ts";
import { givenTwice, LineFault, wrongContents } from "../fault.ts";
import { isText } from "../numbers.ts";
import { mediaPart, sourceOfAddress } from "./media.ts";
import { type Members, membersOf, textIn, textsIn } from "./members.ts";

const HOLDERS = ["text", "inlineData", "fileData", "functionCall", "functionResponse"] as const;
const BESIDE = ["thought", "thoughtSignature", "videoMetadata", "mediaResolution"] as const;
const UNSUPPORTED = [
  "executableCode",
  "codeExecutionResult",
  "toolCall",
  "toolResponse",
  "partMetadata",
] as const;
const PART_NAMES: readonly string[] = [...HOLDERS, ...BESIDE, ...UNSUPPORTED];
/** Which members may be beside what. */
const ALLOWED: Readonly<Record<(typeof HOLDERS)[number], readonly string[]>> = {
  text: ["thought", "thoughtSignature"],
  inlineData: ["videoMetadata", "mediaResolution"],
  fileData: ["videoMetadata", "mediaResolution"],
  functionCall: ["thoughtSignature"],
  functionResponse: [],
};

/** What such a part is. */
export type OtherPart = SignedText | MediaPart | ToolCallPart | ToolResultPart;

/** Reads a part. `place` is its path, for faults. */
export function readGeminiPart(part: JsonObject, place: string): OtherPart | LineFault {
  const members = membersOf(part, PART_NAMES, place);
  if (members instanceof LineFault) return members;
  const unsupported = UNSUPPORTED.find((name) => members.has(name));
  if (unsupported !== undefined)
    return new LineFault("unsupported_request", `${place}.${unsupported} is not supported`);
  const [holder, other] = HOLDERS.filter((name) => members.has(name));
  if (holder === undefined)
    return new LineFault(
      "invalid_contents",
      `${place} must have text, inline_data, file_data, function_call or function_response`,
    );
  if (other !== undefined)
    return new LineFault("invalid_contents", `${place} has ${holder} and ${other}; a part has one of them`);
  const odd = BESIDE.find((name) => members.has(name) && !ALLOWED[holder].includes(name));
  if (odd !== undefined)
    return new LineFault("invalid_contents", `${place}.${odd} cannot be beside ${holder}`);
  const signature = textIn(members, "thoughtSignature", place);
  if (signature instanceof LineFault) return signature;
  const signed = signature === undefined ? {} : { thoughtSignature: signature };
  if (holder === "text") return readText(members, signed, place);
  const held = members.get(holder);
  const where = `${place}.${holder}`;
  if (!isObject(held)) return wrongContents(where, "an object", held);
  if (holder === "functionCall") {
    const call = readCall(held, where);
    return call instanceof LineFault ? call : { ...call, ...signed };
  }
  if (holder === "functionResponse") return readResult(held, where);
  const details = readDetails(members, place);
  if (details instanceof LineFault) return details;
  return holder === "inlineData" ? readInline(held, details, where) : readFile(held, details, where);
}

function readText(
  members: Members,
  signed: Pick<SignedText, "thoughtSignature">,
  place: string,
): SignedText | LineFault {
  const text = textIn(members, "text", place);
  if (text instanceof LineFault) return text;
  const thought = members.get("thought") ?? false;
  if (typeof thought !== "boolean") return wrongContents(`${place}.thought`, "true or false", thought);
  return { kind: "text", text: text ?? "", ...signed, ...(thought ? { isThought: true as const } : {}) };
}

function readCall(held: JsonObject, where: string): ToolCallPart | LineFault {
  const members = membersOf(held, ["id", "name", "args"], where);
  if (members instanceof LineFault) return members;
  const texts = textsIn(members, ["id", "name"], where);
  if (texts instanceof LineFault) return texts;
  const { id, name } = texts;
  if (name === undefined || name === "") return wrongContents(`${where}.name`, "a name", name);
  const args = members.get("args") ?? {};
  if (!isObject(args)) return wrongContents(`${where}.args`, "an object", args);
  return { kind: "tool_call", ...(id === undefined ? {} : { id }), name, arguments: args };
}

/** `{ output: "text" }` and a text are the same result (Google's guide to function calling). */
function readResult(held: JsonObject, where: string): ToolResultPart | LineFault {
  const members = membersOf(held, ["id", "name", "response"], where);
  if (members instanceof LineFault) return members;
  const texts = textsIn(members, ["id", "name"], where);
  if (texts instanceof LineFault) return texts;
  const { id, name } = texts;
  if (name === undefined || name === "") return wrongContents(`${where}.name`, "a name", name);
  const response = members.get("response") ?? {};
  if (!isObject(response)) return wrongContents(`${where}.response`, "an object", response);
  const { output, error } = response;
  const isAlone = Object.keys(response).length === 1;
  const head = { kind: "tool_result", ...(id === undefined ? {} : { id }), name } as const;
  if (isAlone && isText(output)) return { ...head, content: [output] };
  if (isAlone && isText(error)) return { ...head, content: [error], isError: true };
  return { ...head, content: response };
}

function readInline(
  held: JsonObject,
  details: Pick<MediaPart, "mediaResolution" | "videoMetadata">,
  where: string,
): MediaPart | LineFault {
  const members = membersOf(held, ["mimeType", "data", "displayName"], where);
  if (members instanceof LineFault) return members;
  const texts = textsIn(members, ["mimeType", "data", "displayName"], where);
  if (texts instanceof LineFault) return texts;
  const { data, mimeType, displayName: fileName } = texts;
  if (data === undefined || data === "") return wrongContents(`${where}.data`, "base64 data", undefined);
  return mediaPart({ source: { base64: data }, mimeType, fileName, details }, where);
}

const PLACES = ["fileUri", "uri", "path", "fileId"] as const;

function readFile(
  held: JsonObject,
  details: Pick<MediaPart, "mediaResolution" | "videoMetadata">,
  where: string,
): MediaPart | LineFault {
  const members = membersOf(held, ["mimeType", "displayName", ...PLACES], where);
  if (members instanceof LineFault) return members;
  const texts = textsIn(members, ["mimeType", "displayName", ...PLACES], where);
  if (texts instanceof LineFault) return texts;
  const [place, other] = PLACES.filter((name) => (texts[name] ?? "") !== "");
  if (place === undefined)
    return new LineFault("invalid_contents", `${where} must have file_uri, path or file_id`);
  if (other !== undefined) return givenTwice(`${where}.${place}`, `${where}.${other}`);
  const { path, fileId, mimeType, displayName: fileName } = texts;
  const given = { mimeType, fileName, details };
  if (path !== undefined && path !== "") return mediaPart({ ...given, source: { path } }, where);
  if (fileId !== undefined && fileId !== "") return mediaPart({ ...given, source: { fileId } }, where);
  const found = sourceOfAddress(texts.fileUri ?? texts.uri ?? "", `${where}.${place}`);
  if (found instanceof LineFault) return found;
  return mediaPart({ ...given, ...found, mimeType: mimeType ?? found.mimeType }, where);
}

/** `media_resolution` is `{ level }` at Gemini; a plain level is read as well. */
function readDetails(
  members: Members,
  place: string,
): Pick<MediaPart, "mediaResolution" | "videoMetadata"> | LineFault {
  const given = members.get("mediaResolution");
  const level = isObject(given) ? given["level"] : given;
  if (given !== undefined && (!isText(level) || (isObject(given) && Object.keys(given).length > 1)))
    return wrongContents(`${place}.mediaResolution`, '{"level": "MEDIA_RESOLUTION_..."}', given);
  const metadata = members.get("videoMetadata");
  if (metadata !== undefined && !isObject(metadata))
    return wrongContents(`${place}.videoMetadata`, "an object", metadata);
  return {
    ...(isText(level) ? { mediaResolution: level } : {}),
    ...(metadata === undefined ? {} : { videoMetadata: metadata as JsonValue }),
  };
}
