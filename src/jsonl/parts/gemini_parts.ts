/**
 * A part of perigee's layout that is not a plain text. The layout is Gemini's, and names in snake_case or camelCase are read.
 *
 *   text with thought, thought_signature      a text with them
 *   inline_data { mime_type, data }           a medium in base64
 *   file_data { file_uri }                    https://, gs://, s3:// or data:
 *   file_data { path } or { file_id }         a local file, or one of perigee's store
 *   function_call { name, args }              a call; thought_signature beside it is kept
 *   function_response { name, response }      a result; media in its `parts`
 *
 * A part has one of them. Parts of Gemini's own tools are refused by name.
 */
import { isList, isObject, type JsonObject } from "../../work/json.ts";
import type { JsonValue, MediaPart, SignedText, ToolCallPart, ToolResultPart } from "../../work/request.ts";
import { givenTwice, LineFault, wrongContents } from "../fault.ts";
import { isText } from "../numbers.ts";
import { base64Fault, mediaPart, sourceOfAddress } from "./media.ts";
import { type Members, membersOf, snakeOf, textIn, textsIn } from "./members.ts";

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

/** Members of `fileData`, of which one says where the file is. */
const PLACES = ["fileUri", "uri", "path", "fileId"] as const;

/** What such a part is. */
export type OtherPart = SignedText | MediaPart | ToolCallPart | ToolResultPart;

/** Reads a part. `place` is its path, for faults. */
export function readGeminiPart(part: JsonObject, place: string): OtherPart | LineFault {
  const bare = PLACES.find((name) => part[name] !== undefined || part[snakeOf(name)] !== undefined);
  if (bare !== undefined) {
    const name = snakeOf(bare);
    return new LineFault(
      "invalid_config",
      `${JSON.stringify(name)} of ${place} belongs in file_data: {"file_data": {"${name}": ...}}`,
    );
  }
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
  const call = readNamed(held, "args", where);
  return call instanceof LineFault ? call : { kind: "tool_call", ...call.head, arguments: call.value };
}

/** `{ output: "text" }` and a text are the same result (Google's guide to function calling). */
function readResult(held: JsonObject, where: string): ToolResultPart | LineFault {
  const result = readNamed(held, "response", where, ["parts"]);
  if (result instanceof LineFault) return result;
  const media = readResultMedia(result.members.get("parts") ?? [], `${where}.parts`);
  if (media instanceof LineFault) return media;
  const { output, error } = result.value;
  const isOnly = Object.keys(result.value).length === 1;
  const head = { kind: "tool_result", ...result.head, ...(media.length === 0 ? {} : { media }) } as const;
  if (isOnly && isText(output)) return { ...head, content: [output] };
  if (isOnly && isText(error)) return { ...head, content: [error], isError: true };
  return { ...head, content: result.value };
}

interface NamedMembers {
  readonly head: Pick<ToolCallPart, "id" | "name">;
  readonly value: JsonObject;
  readonly members: Members;
}

/** What calls and results have: the id and the name of the call, and the object under `member`, empty if that is absent. */
function readNamed(
  held: JsonObject,
  member: "args" | "response",
  where: string,
  others: readonly string[] = [],
): NamedMembers | LineFault {
  const members = membersOf(held, ["id", "name", member, ...others], where);
  if (members instanceof LineFault) return members;
  const texts = textsIn(members, ["id", "name"], where);
  if (texts instanceof LineFault) return texts;
  const { id, name } = texts;
  if (name === undefined || name === "") return wrongContents(`${where}.name`, "a name", name);
  const value = members.get(member) ?? {};
  if (!isObject(value)) return wrongContents(`${where}.${member}`, "an object", value);
  return { head: { ...(id === undefined ? {} : { id }), name }, value, members };
}

/** Media that are parts of a result. */
function readResultMedia(given: JsonValue, where: string): readonly MediaPart[] | LineFault {
  if (!isList(given)) return wrongContents(where, "a list", given);
  const media: MediaPart[] = [];
  for (const [index, part] of given.entries()) {
    const place = `${where}[${index}]`;
    if (!isObject(part)) return wrongContents(place, "an object", part);
    const members = membersOf(part, ["inlineData", "fileData"], place);
    if (members instanceof LineFault) return members;
    const [[holder, held] = [], other] = [...members];
    if (holder === undefined || other !== undefined)
      return new LineFault("invalid_contents", `${place} must have inline_data or file_data`);
    if (!isObject(held)) return wrongContents(`${place}.${holder}`, "an object", held);
    const read = holder === "inlineData" ? readInline : readFile;
    const medium = read(held, {}, `${place}.${holder}`);
    if (medium instanceof LineFault) return medium;
    media.push(medium);
  }
  return media;
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
  const fault = base64Fault(data, `${where}.data`);
  if (fault !== undefined) return fault;
  return mediaPart({ source: { base64: data }, mimeType, fileName, details }, where);
}

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
