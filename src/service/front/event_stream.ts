/**
 * A response of server-sent events, at the pace of its reader.
 *
 *   waiting -> begun (its first event) -> ended | left by its reader
 *
 * Limit: 16 KiB and one event wait here; `send` then resolves when the reader has taken them.
 */
import { PassThrough, type Readable } from "node:stream";
import type { FastifyReply } from "../http/fastify.ts";
import type { StreamEvent } from "./stream_shape.ts";

/** One for a response. */
export class EventStream {
  readonly #through = new PassThrough();
  readonly begun: Promise<void>;
  #begin: (() => void) | undefined;

  constructor() {
    this.begun = new Promise((resolve) => {
      this.#begin = resolve;
    });
  }

  /** Sends events. What it returns resolves when the next ones may follow, and when the reader has left. */
  send(events: readonly StreamEvent[]): Promise<void> | undefined {
    if (events.length === 0) return undefined;
    this.#begin?.();
    this.#begin = undefined;
    if (this.#through.destroyed) return undefined;
    if (this.#through.write(events.map(textOf).join(""))) return undefined;
    return new Promise((resolve) => {
      const taken = (): void => {
        this.#through.off("drain", taken).off("close", taken); // one for each wait would stay until the end
        resolve();
      };
      this.#through.on("drain", taken).on("close", taken);
    });
  }

  /** Ends the response with these events. */
  end(events: readonly StreamEvent[]): void {
    void this.send(events);
    if (!this.#through.destroyed) this.#through.end();
  }

  /** Makes it the response; proxies are asked to pass events on at once. */
  answer(reply: FastifyReply): FastifyReply {
    const body: Readable = this.#through;
    return reply
      .headers({ "cache-control": "no-cache", "x-accel-buffering": "no" })
      .type("text/event-stream; charset=utf-8")
      .send(body);
  }
}

function textOf({ name, data }: StreamEvent): string {
  return name === undefined ? `data: ${data}\n\n` : `event: ${name}\ndata: ${data}\n\n`;
}
