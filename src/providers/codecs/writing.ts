/**
 * What a codec notes while it writes the parts of a request: what it left out, what it cannot write, files to insert, and which
 * result is of which call.
 *
 *   a call without an id        gets one by its place, which no call of the request has
 *   a result without an id      is of the first call of its name that has no result yet
 */

import { isObject } from "../../work/json.ts";
import type {
  MediaPart,
  ModelRequest,
  ToolCallPart,
  ToolResultPart,
  Turn,
  TurnPart,
} from "../../work/request.ts";
import type { Insert } from "../inserts.ts";

/** Of a call or a result. */
interface Pairing {
  readonly id: string | undefined;
  readonly name: string | undefined;
}

/** A literal would be made anew for each request. */
const ANY_ID = /^./s;

/** The notes of one request. */
export class Writing {
  /** Names of members that are left out. */
  readonly dropped: string[];
  readonly inserts: Insert[] = [];
  /** The provider's name. */
  readonly name: string;
  readonly #request: ModelRequest;
  /** Ids that the protocol takes. */
  readonly #idPattern: RegExp;
  #pairs: ReadonlyMap<TurnPart, Pairing> | undefined;
  #refused: string | undefined;

  constructor(request: ModelRequest, name: string, dropped: string[], idPattern: RegExp = ANY_ID) {
    this.#request = request;
    this.name = name;
    this.dropped = dropped;
    this.#idPattern = idPattern;
  }

  /** Why the request cannot be written; undefined while it can. */
  get refused(): string | undefined {
    return this.#refused;
  }

  /** Notes that a part cannot be written; `why` follows the provider's name. The first counts. */
  refuse(part: TurnPart, why: string): void {
    this.#refused ??= `${placeOf(part, this.#request)}: ${this.name} ${why}`;
  }

  /** Notes that a member is left out. */
  drop(name: string): void {
    if (!this.dropped.includes(name)) this.dropped.push(name);
  }

  /** Notes the members of a medium that the protocol has no place for. */
  dropDetails(
    { detail, mediaResolution, fileName, videoMetadata }: MediaPart,
    written: { readonly detail?: true; readonly fileName?: true } = {},
  ): void {
    if (written.detail !== true) {
      if (detail !== undefined && detail !== "auto") this.drop("detail");
      if (mediaResolution !== undefined) this.drop("media_resolution");
    }
    if (written.fileName !== true && fileName !== undefined) this.drop("file_name");
    if (videoMetadata !== undefined) this.drop("video_metadata");
  }

  /** The id and the name of a call or a result; a result that is of no call is refused. */
  pairOf(part: ToolCallPart | ToolResultPart): { readonly id: string; readonly name: string } {
    this.#pairs ??= pairsOf(this.#request.turns, this.#idPattern);
    const { id, name } = this.#pairs.get(part) ?? { id: part.id, name: part.name };
    if (id === undefined || name === undefined)
      this.refuse(part, "needs a result to follow a call with its id or name");
    return { id: id ?? "", name: name ?? "" };
  }
}

function pairsOf(turns: readonly Turn[], idPattern: RegExp): ReadonlyMap<TurnPart, Pairing> {
  const pairs = new Map<TurnPart, Pairing>();
  const given = new Set<string>();
  for (const { parts } of turns)
    for (const part of parts)
      if (typeof part !== "string" && part.kind === "tool_call" && part.id !== undefined) given.add(part.id);
  const calls: { readonly part: ToolCallPart; readonly id: string; isAnswered: boolean }[] = [];
  let made = 0;
  const madeId = (): string => {
    do made += 1;
    while (given.has(`call_${made}`));
    return `call_${made}`;
  };
  for (const { parts } of turns)
    for (const part of parts) {
      if (typeof part === "string") continue;
      if (part.kind === "tool_call") {
        const id = part.id !== undefined && idPattern.test(part.id) ? part.id : madeId();
        calls.push({ part, id, isAnswered: false });
        pairs.set(part, { id, name: part.name });
      } else if (part.kind === "tool_result") {
        const call =
          part.id === undefined
            ? calls.find((one) => !one.isAnswered && one.part.name === part.name)
            : calls.findLast((one) => one.part.id === part.id);
        if (call !== undefined) call.isAnswered = true;
        pairs.set(part, { id: call?.id, name: call?.part.name ?? part.name });
      }
    }
  return pairs;
}

/** The path of a part in the layout that the request was written in. */
function placeOf(part: TurnPart, { turns, openaiBody }: ModelRequest): string {
  const turnIndex = turns.findIndex(({ parts }) => parts.some((one) => one === part || holds(one, part)));
  const parts = turns[turnIndex]?.parts ?? [];
  const partIndex = parts.findIndex((one) => one === part || holds(one, part));
  if (openaiBody === undefined) return `contents[${turnIndex}].parts[${partIndex}]`;
  return placeInMessages(turnIndex, partIndex, parts, openaiBody["messages"]);
}

/** Whether a part is inside another: a medium in a result. */
function holds(owner: TurnPart, part: TurnPart): boolean {
  if (typeof owner === "string" || owner.kind !== "tool_result") return false;
  const { content, media = [] } = owner;
  return [...(Array.isArray(content) ? content : []), ...media].includes(part);
}

/** Results of tools are a message each, and turns of the model have their calls beside their content. */
function placeInMessages(
  turnIndex: number,
  partIndex: number,
  parts: readonly TurnPart[],
  messages: unknown,
): string {
  let turn = -1;
  let isAfterTool = false;
  let at = -1;
  for (const [index, message] of (Array.isArray(messages) ? messages : []).entries()) {
    const role = isObject(message) ? message["role"] : undefined;
    if (role === "system" || role === "developer") continue;
    const isTool = role === "tool";
    if (!isTool || !isAfterTool) turn += 1;
    isAfterTool = isTool;
    if (turn < turnIndex) continue;
    at = isTool ? index + partIndex : index;
    if (isTool) return `messages[${at}]`;
    break;
  }
  const part = parts[partIndex];
  if (typeof part !== "object" || part.kind !== "tool_call") return `messages[${at}].content[${partIndex}]`;
  const before = parts
    .slice(0, partIndex)
    .filter((one) => typeof one === "object" && one.kind === "tool_call");
  return `messages[${at}].tool_calls[${before.length}]`;
}
