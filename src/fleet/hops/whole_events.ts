/**
 * The events of a streamed call on their way through another worker: each is passed on when it is whole, so that a stream that breaks off can end with
 * an error, as that of one process does.
 *
 *   passing -> ended      (as it came)
 *           -> broken off (the rest of an event is dropped, the error is the last event)
 *
 * Limit: an event above 1 MiB is passed on in parts. A stream that breaks off within it breaks off for the client, too.
 */
import type { IncomingMessage } from "node:http";
import { Transform } from "node:stream";

const EVENT_BYTES_MAX = 1024 * 1024;
const END = "\n\n";
/** Events of a response have names and numbers; those of chats and completions have neither. */
const NAMED = /^event:/;

export interface WholeEvents {
  /** Between the answer and the client. */
  readonly through: Transform;
  /** Ends the stream with the error and returns true; false, with nothing written, where a part of an event was passed on. */
  breakOff(error: { readonly code: string; readonly message: string }): boolean;
}

/** Whether an answer is the stream of a call. Feeds (GET) are opened again by their readers. */
export function isStreamedCall({ method }: IncomingMessage, { headers }: IncomingMessage): boolean {
  return method === "POST" && /^text\/event-stream\b/.test(headers["content-type"] ?? "");
}

export function wholeEvents(): WholeEvents {
  let rest: Buffer = Buffer.alloc(0);
  let count = 0;
  let isNamed = false;
  let isInEvent = false;
  const through = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      if (count === 0 && !isInEvent) isNamed = NAMED.test(bytes.toString("latin1", 0, 6));
      const end = bytes.lastIndexOf(END);
      const isLarge = bytes.length - end > EVENT_BYTES_MAX;
      const passed = isLarge ? bytes.length : end < 0 ? 0 : end + END.length;
      if (passed > 0) isInEvent = isLarge;
      rest = bytes.subarray(passed);
      count += occurrences(bytes.subarray(0, passed));
      done(null, bytes.subarray(0, passed));
    },
    flush: (done) => done(null, rest),
  });
  return {
    through,
    breakOff: (error) => {
      if (isInEvent) return false;
      rest = Buffer.from(isNamed ? named(error, count) : `data: ${JSON.stringify({ error })}${END}`);
      through.end();
      return true;
    },
  };
}

function named(error: { readonly code: string; readonly message: string }, sequence: number): string {
  const { code, message } = error;
  const data = { type: "error", sequence_number: sequence, code, message, param: null, error };
  return `event: error\ndata: ${JSON.stringify(data)}${END}`;
}

function occurrences(bytes: Buffer): number {
  let found = 0;
  for (let at = bytes.indexOf(END); at >= 0; at = bytes.indexOf(END, at + END.length)) found += 1;
  return found;
}
