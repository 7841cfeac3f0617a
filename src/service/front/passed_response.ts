/**
 * The events of a provider's own stream of a response, passed on with the id by which this service knows it.
 *
 *   an event with the response    its id, `background` and `metadata` are those of the call
 *   its last event                waits until the response is recorded
 *   all others                    as they are
 */

import type { StreamChunk } from "../../providers/streams/event_reader.ts";
import { isObject, type Json, type JsonObject } from "../../work/json.ts";
import type { CallAnswer } from "./calls.ts";
import { ResponseEvents, type ResponseHead, responseEvent } from "./response_events.ts";
import type { StreamEvent, StreamFailure, StreamShape } from "./stream_shape.ts";

const LAST: ReadonlySet<unknown> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
  "response.cancelled",
]);

/** One for a call. */
export class PassedResponse implements StreamShape {
  readonly #head: ResponseHead;
  #last: StreamEvent | undefined;
  #passed = 0;

  constructor(head: ResponseHead) {
    this.#head = head;
  }

  part({ json }: StreamChunk): readonly StreamEvent[] {
    const event = JSON.parse(json) as JsonObject; // the reader of the provider's stream has read it
    const { type, response } = event;
    const name = String(type);
    this.#passed += 1;
    if (!isObject(response)) return [{ name, data: json }];
    const { id, note, metadata = {} } = this.#head;
    const shown: JsonObject = { ...response, id, background: note.isBackground, metadata: metadata as Json };
    const own = { name, data: JSON.stringify({ ...event, response: shown }) };
    if (!LAST.has(type)) return [own];
    this.#last = own;
    return [];
  }

  whole(answer: CallAnswer): readonly StreamEvent[] {
    return new ResponseEvents(this.#head).whole(answer);
  }

  ended(): readonly StreamEvent[] {
    return this.#last === undefined ? [] : [this.#last];
  }

  failed({ code, message }: StreamFailure): readonly StreamEvent[] {
    if (this.#last !== undefined) return [this.#last];
    return [responseEvent("error", this.#passed, { code, message, param: null, error: { code, message } })];
  }
}
