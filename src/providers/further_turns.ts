/**
 * A request that is encoded already, with two turns more: the model's answer, and the reply to it.
 *
 *   openai, function    messages: assistant, user
 *   anthropic           the same
 *   gemini              contents: model, user
 *   echo, own codecs    unchanged: the first answers one text to one request, and the form of the others is not known
 *
 * The turns are put before the end of the list, and no other byte changes, so numbers keep their digits.
 */
import type { Protocol } from "./provider.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** `body` is JSON as a codec writes it. The same body where turns cannot be added. */
export function withAnswered(
  body: Uint8Array,
  protocol: Protocol,
  answer: string,
  reply: string,
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
  let depth = 0;
  let isIn = false;
  let lastText = "";
  for (let at = 0; at < body.length; at += 1) {
    const code = body[at];
    if (code === QUOTE) {
      const end = stringEnd(body, at);
      if (depth === 1) lastText = Buffer.from(body.subarray(at + 1, end)).toString("latin1");
      at = end;
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

/** The place of the closing quote of the string that opens at `start`. */
function stringEnd(body: Uint8Array, start: number): number {
  let at = start + 1;
  while (at < body.length && body[at] !== QUOTE) at += body[at] === BACKSLASH ? 2 : 1;
  return at;
}
