/**
 * A request that is encoded already, with two turns more: the model's answer, and the reply to it.
 *
 *   openai, function    messages: assistant, user
 *   anthropic           the same
 *   gemini              contents: model, user
 *   own codecs          as their `withTurns` puts them; those without it are asked the same again, because the form of their bodies is not
 *                       known
 *   echo                unchanged: it has one answer to a request, and is not asked again
 *
 * The turns are put before the end of the list, and no other byte changes, so numbers keep their digits.
 */
import { stringEnd } from "./json.ts";
import type { FurtherTurns, Provider } from "./provider.ts";

const QUOTE = 0x22;

/** `body` is JSON as a codec writes it. The same body where turns cannot be added; it grows by `bytesMax` at most. */
export function withAnswered(
  body: Uint8Array,
  provider: Pick<Provider, "settings" | "withTurns">,
  turns: FurtherTurns,
  bytesMax: number,
): Uint8Array {
  const { settings, withTurns } = provider;
  const made =
    withTurns === undefined ? inJson(body, settings.protocol, turns) : asCodec(body, withTurns, turns);
  return made.byteLength > body.byteLength + bytesMax ? body : made;
}

/** A codec is the user's: what it throws or returns instead of a text changes nothing. */
function asCodec(
  body: Uint8Array,
  withTurns: NonNullable<Provider["withTurns"]>,
  turns: FurtherTurns,
): Uint8Array {
  try {
    const made: unknown = withTurns(Buffer.from(body).toString(), { ...turns });
    if (typeof made === "string") return Buffer.from(made);
    if (made instanceof Promise) made.catch(() => undefined);
    return body;
  } catch {
    return body;
  }
}

function inJson(
  body: Uint8Array,
  protocol: Provider["settings"]["protocol"],
  { answer, reply }: FurtherTurns,
): Uint8Array {
  if (protocol === "echo" || protocol === "own") return body;
  const isGemini = protocol === "gemini";
  const end = listEnd(body, isGemini ? "contents" : "messages");
  if (end === undefined) return body;
  const turns = isGemini
    ? [
        { role: "model", parts: [{ text: answer }] },
        { role: "user", parts: [{ text: reply }] },
      ]
    : [
        { role: "assistant", content: answer },
        { role: "user", content: reply },
      ];
  const isEmpty = body[end - 1] === 0x5b;
  const more = `${isEmpty ? "" : ","}${turns.map((turn) => JSON.stringify(turn)).join(",")}`;
  return Buffer.concat([body.subarray(0, end), Buffer.from(more), body.subarray(end)]);
}

/** The place of the bracket that ends a list of this name in the outermost object. */
function listEnd(body: Uint8Array, name: string): number | undefined {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  let depth = 0;
  let isIn = false;
  let lastText = "";
  for (let at = 0; at < body.length; at += 1) {
    const code = bytes[at];
    if (code === QUOTE) {
      const end = stringEnd(bytes, at);
      if (end === undefined) return undefined;
      if (depth === 1) lastText = bytes.toString("latin1", at + 1, end - 1);
      at = end - 1;
    } else if (code === 0x7b || code === 0x5b) {
      if (depth === 1) isIn = code === 0x5b && lastText === name;
      depth += 1;
    } else if (code === 0x7d || code === 0x5d) {
      depth -= 1;
      if (depth === 1 && isIn) return at;
    }
  }
  return undefined;
}
